"""The torch door of stored programs: a module that runs a checked graph, one call after the other."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch

from model_store.exported.graph import Graph, Node, TensorForm, node_references
from schemas.errors import UnsupportedProgramError

_INTEGER: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "neg": operator.neg,
    "getitem": operator.getitem,
}
_RESHAPING = frozenset({"aten.view.default", "aten.view_copy.default", "aten._unsafe_view.default"})


class ProgramModule(torch.nn.Module):
    """Runs a graph that :func:`~model_store.exported.graph.decode_graph` has accepted. Built without weights.

    Called with one tensor, or with a dict of them by the names of the graph's inputs, each with the batch as its first
    axis. Returns a tensor, or a dict of them by the names of its outputs. Raises UnsupportedProgramError when this
    torch has no such operator.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._inputs = [form.name for form in graph.inputs]
        self._weights = [form.name for form in graph.weights]
        self._outputs = graph.outputs
        for form in graph.weights:
            self._register(form)
        last_use = {name: at for at, node in enumerate(graph.nodes) for name in node_references(node)}
        kept = {*self._weights, *graph.outputs.values()}
        self._calls: list[tuple[Node, Callable[..., Any], tuple[str, ...]]] = []
        for at, node in enumerate(graph.nodes):
            done = {name for name in node_references(node) if last_use[name] == at and name not in kept}
            self._calls.append((node, find_operator(node.operator), tuple(done)))

    def _register(self, form: TensorForm) -> None:
        shape = [size or 0 for size in form.shape]
        # No memory yet: the loader assigns the tensors of the file.
        tensor = torch.empty(shape, dtype=getattr(torch, form.dtype), device="meta")
        if tensor.is_floating_point():
            self.register_parameter(form.name, torch.nn.Parameter(tensor, requires_grad=False))
        else:
            self.register_buffer(form.name, tensor)

    def forward(self, inputs: Any) -> Any:
        """Run the program."""
        given = inputs if isinstance(inputs, dict) else {self._inputs[0]: inputs}
        values: dict[str, Any] = {name: given[name] for name in self._inputs}
        values.update((name, getattr(self, name)) for name in self._weights)
        device = values[self._inputs[0]].device
        for node, call, done in self._calls:
            arguments = [_resolve(argument, values, device) for argument in node.arguments]
            named = {name: _resolve(argument, values, device) for name, argument in node.named.items()}
            values[node.name] = call(*arguments, **named)
            for name in done:
                del values[name]
        results = {name: values[source] for name, source in self._outputs.items()}
        return results.get("", results)


def find_operator(name: str) -> Callable[..., Any]:
    """Return the function behind an operator's checked name. Raises UnsupportedProgramError when torch has none."""
    family, _, rest = name.partition(".")
    if family == "int":
        return _INTEGER[rest]
    if name == "aten.sym_size.int":
        return lambda tensor, axis: tensor.shape[axis]
    if name in _RESHAPING:
        # The same values for any layout in memory: a view of a tensor in channels-last order may not exist.
        return torch.reshape
    base, _, overload = rest.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    # Asked first: an attribute of that name could be anything else.
    found: Any = getattr(packet, overload) if packet is not None and overload in packet.overloads() else None
    if found is None or found._schema.is_mutable:  # noqa: SLF001 - where torch keeps whether a call writes
        raise UnsupportedProgramError(f"this torch ({torch.__version__}) has no operator {name} without side effects")
    call: Callable[..., Any] = found
    return call


def _resolve(value: Any, values: Mapping[str, Any], device: torch.device) -> Any:
    if isinstance(value, list):
        return [_resolve(part, values, device) for part in value]
    if not isinstance(value, dict):
        return value
    kind, word = next(iter(value.items()))
    if kind == "node":
        return values[word]
    if kind == "device":
        return device
    return float(word) if kind == "float" else getattr(torch, word)
