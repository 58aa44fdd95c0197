"""The torch door of publishing a program: from `torch.export` in this process to a graph and its weights as data.

Only what the caller holds as an object is converted. A `.pt2` file is never read: `torch.export.load` unpickles parts
of it and evaluates text from it.
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from model_store.exported.graph import Graph, Node, TensorForm, check_operator, node_references
from schemas.errors import UnsupportedProgramError

_INTEGER: Mapping[Callable[..., Any], str] = {
    operator.add: "add",
    operator.sub: "sub",
    operator.mul: "mul",
    operator.floordiv: "floordiv",
    operator.mod: "mod",
    operator.neg: "neg",
    operator.getitem: "getitem",
}
_WEIGHTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def convert_program(program: ExportedProgram) -> tuple[Graph, dict[str, Any]]:
    """Return the graph and the weights by the graph's names for them.

    Raises UnsupportedProgramError for a batch axis that is not dynamic, an input that is no tensor, state that the
    program changes, and an operator outside the list.
    """
    functional = program.run_decompositions({})  # without writing into arguments; what is composite stays whole
    inputs, forms, weights = _read_inputs(functional)
    nodes: list[Node] = []
    results: Any = None
    for node in functional.graph.nodes:
        if node.op == "output":
            results = node.args[0]
        elif node.op == "call_function":
            nodes.append(_convert_node(node))
        elif node.op != "placeholder":
            raise UnsupportedProgramError(f"the program has a {node.op} of {node.target}: only operators are stored")
    outputs = _read_outputs(functional, results)
    kept = _needed(nodes, set(outputs.values()))
    for kept_node in kept:
        check_operator(kept_node.operator)
    return Graph(inputs, forms, kept, outputs), weights


def _read_inputs(program: ExportedProgram) -> tuple[list[TensorForm], list[TensorForm], dict[str, Any]]:
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    inputs: list[TensorForm] = []
    forms: list[TensorForm] = []
    weights: dict[str, Any] = {}
    for spec in program.graph_signature.input_specs:
        name = spec.arg.name
        if spec.kind in _WEIGHTS:
            tensor = program.state_dict.get(spec.target, program.constants.get(spec.target))
            weights[name] = tensor
            forms.append(_form(name, tensor))
        elif spec.kind == InputKind.USER_INPUT and isinstance(placeholders[name].meta.get("val"), torch.Tensor):
            inputs.append(_form(name, placeholders[name].meta["val"]))
        else:
            raise UnsupportedProgramError(f"the program's input {name} is a {spec.kind.name}, and not a tensor")
    for form in inputs:
        if not form.shape or form.shape[0] is not None:
            raise UnsupportedProgramError(
                f"the program's input {form.name} has a fixed batch of {form.shape[:1]}: export it with"
                " dynamic_shapes=({0: torch.export.Dim.AUTO},) and an example of at least two records"
            )
    return inputs, forms, weights


def _read_outputs(program: ExportedProgram, results: Any) -> dict[str, str]:
    for spec in program.graph_signature.output_specs:
        if spec.kind != OutputKind.USER_OUTPUT:
            raise UnsupportedProgramError(f"the program changes state ({spec.kind.name}): export it after model.eval()")
    if not all(isinstance(node, torch.fx.Node) for node in results):
        raise UnsupportedProgramError("the program returns something that is not a tensor")
    names = [node.name for node in results]
    tree = program.call_spec.out_spec
    if tree is None or tree.is_leaf():
        return {"": names[0]}
    if tree.type is dict and all(child.is_leaf() for child in tree.children()):
        return dict(zip(map(str, tree.context), names, strict=True))
    return {f"output_{at}": name for at, name in enumerate(names)}


def _form(name: str, tensor: Any) -> TensorForm:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return TensorForm(name, dtype, [size if isinstance(size, int) else None for size in tensor.shape])


def _convert_node(node: Any) -> Node:
    target = node.target
    if target in _INTEGER:
        name = f"int.{_INTEGER[target]}"
    elif isinstance(target, torch._ops.OpOverload):  # noqa: SLF001 - torch has no public name for its operators' class
        name = str(target)
    else:
        name = f"python.{getattr(target, '__name__', 'unknown')}"
    arguments = [_convert(argument) for argument in node.args]
    named = {key: _convert(argument) for key, argument in node.kwargs.items() if key != "pin_memory"}
    return Node(node.name, name, arguments, named)


def _convert(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list | tuple):
        return [_convert(part) for part in value]
    if isinstance(value, torch.layout) and value == torch.strided:
        return None
    return _convert_special(value)


def _convert_special(value: Any) -> dict[str, str]:
    match value:
        case torch.fx.Node():
            return {"node": value.name}
        case float():
            return {"float": str(value)}
        case torch.dtype():
            return {"dtype": str(value).removeprefix("torch.")}
        case torch.memory_format():
            return {"memory_format": str(value).removeprefix("torch.")}
        case torch.device():
            return {"device": "own"}
    raise UnsupportedProgramError(f"the program has an argument of type {type(value).__name__}: {str(value)[:60]}")


def _needed(nodes: list[Node], wanted: set[str]) -> list[Node]:
    """Leave out what no output depends on: checks of sizes at run time, which the loader's own checks replace."""
    kept = []
    for node in reversed(nodes):
        if node.name in wanted:
            kept.append(node)
            wanted.update(node_references(node))
    return kept[::-1]
