"""An exported program as data: named inputs and weights, a list of calls of known operators, named outputs.

Nothing in it is evaluated, imported or unpickled: an operator is a name that is looked up in a list, a size is a number
or the result of an earlier call, and text that is not one of a few words is refused (record 0021). Pure: text in, data
out.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from model_store.exported.operators import ATEN, INTEGER, WORDS
from schemas.errors import UnsupportedProgramError

METADATA_KEY = "headrace.graph"
MAX_GRAPH_BYTES = 8 << 20
_MAX_NODES = 50_000
_MAX_DEPTH = 4
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}\Z")
_OVERLOAD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,60}\Z")
_EINSUM = re.compile(r"[A-Za-z.,]{1,100}->[A-Za-z.]{0,60}\Z")
_TRAINING = {"aten.dropout.default": 2, "aten.feature_dropout.default": 2}
"""Where in its arguments a call is told to train: then it would draw random numbers."""
DTYPES = frozenset({"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"})
_LAYOUTS = frozenset({"contiguous_format", "preserve_format", "channels_last"})


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of what a graph consists of."""


class TensorForm(Data, frozen=True):
    """Name, dtype as torch spells it, and shape of a tensor; None for a size that varies, as the batch's, the first."""

    name: str
    dtype: str
    shape: list[int | None]


class Node(Data, frozen=True):
    """One call. Arguments are null, numbers, booleans, words, lists of them, or an object with one key.

    `{"node": name}` is the result of an earlier call; then there are `{"dtype": name}`, `{"memory_format": name}`,
    `{"device": "own"}` for where the module lies, and `{"float": "inf"}` and its like, which JSON has no number for.
    """

    name: str
    operator: str
    arguments: list[Any]
    named: dict[str, Any] = {}


class Graph(Data, frozen=True):
    """A program: `outputs` maps names to nodes; one that is named by the empty text alone is returned as it is."""

    inputs: list[TensorForm]
    weights: list[TensorForm]
    nodes: list[Node]
    outputs: dict[str, str]
    format: int = 1


_decoder = msgspec.json.Decoder(Graph)


def encode_graph(graph: Graph) -> str:
    """Write a sound graph as JSON text. Raises UnsupportedProgramError for what :func:`decode_graph` would refuse."""
    text = msgspec.json.encode(graph).decode()
    decode_graph(text)
    return text


def decode_graph(text: str) -> Graph:
    """Read a graph that anybody may have written. Raises UnsupportedProgramError."""
    if len(text) > MAX_GRAPH_BYTES:
        raise UnsupportedProgramError(f"the program has {len(text)} bytes; at most {MAX_GRAPH_BYTES} are read")
    try:
        graph = _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnsupportedProgramError(f"the program is not one: {str(error)[:200]}") from None
    if graph.format != 1 or len(graph.nodes) > _MAX_NODES or not graph.inputs or not graph.outputs:
        raise UnsupportedProgramError(f"the program needs format 1, inputs, outputs and at most {_MAX_NODES} calls")
    known: set[str] = set()
    for form in (*graph.inputs, *graph.weights):
        _check_form(form)
        _add_name(form.name, known)
    for node in graph.nodes:
        _check_node(node, known)
        _add_name(node.name, known)
    for name, source in graph.outputs.items():
        if (name and not _NAME.match(name)) or source not in known:
            raise UnsupportedProgramError(f"the program's output {name[:40]!r} is not the result of a call")
    return graph


def references(value: Any) -> Iterator[str]:
    """The names of the nodes that an argument mentions."""
    if isinstance(value, dict):
        if "node" in value:
            yield value["node"]
    elif isinstance(value, list):
        for part in value:
            yield from references(part)


def node_references(node: Node) -> Iterator[str]:
    """The names of the nodes that a call needs."""
    yield from references([*node.arguments, *node.named.values()])


def _add_name(name: str, known: set[str]) -> None:
    if not _NAME.match(name) or name in known:
        raise UnsupportedProgramError(f"the program's name {name[:40]!r} is not one, or is given twice")
    known.add(name)


def _check_form(form: TensorForm) -> None:
    is_shape = all(size is None or 0 <= size < 1 << 40 for size in form.shape)
    if form.dtype not in DTYPES or not is_shape or len(form.shape) > 16:
        raise UnsupportedProgramError(f"the program's tensor {form.name[:40]!r} has no sound dtype or shape")


def _check_node(node: Node, known: set[str]) -> None:
    check_operator(node.operator)
    at = _TRAINING.get(node.operator)
    if at is not None and (node.named or len(node.arguments) <= at or node.arguments[at] is not False):
        raise UnsupportedProgramError(f"the program trains in {node.name[:40]!r}: export it after model.eval()")
    for argument in (*node.arguments, *node.named.values()):
        _check_argument(node, argument, known, _MAX_DEPTH)
    if not all(map(_NAME.match, node.named)):
        raise UnsupportedProgramError(f"the program's call {node.name[:40]!r} has an argument without a proper name")


def check_operator(operator: str) -> None:
    """Raise UnsupportedProgramError unless an operator is one that may be called."""
    family, _, name = operator.partition(".")
    base, _, overload = name.partition(".")
    if family == "aten" and base in ATEN and _OVERLOAD.match(overload) and "out" not in overload.split("_"):
        return
    if family == "int" and name in INTEGER:
        return
    raise UnsupportedProgramError(
        f"the program calls {operator[:80]!r}, which is not among the operators that are run from stored data"
    )


def _check_argument(node: Node, value: Any, known: set[str], depth: int) -> None:
    if value is None or isinstance(value, bool | int):
        return
    if isinstance(value, float) and math.isfinite(value):
        return
    if isinstance(value, list) and depth and len(value) <= 1000:
        for part in value:
            _check_argument(node, part, known, depth - 1)
        return
    if isinstance(value, str) and (value in WORDS or (node.operator == "aten.einsum.default" and _EINSUM.match(value))):
        return
    if isinstance(value, dict) and len(value) == 1 and _is_special(*next(iter(value.items())), known):
        return
    raise UnsupportedProgramError(f"the program's call {node.name[:40]!r} has argument {str(value)[:60]!r}")


def _is_special(kind: str, value: Any, known: set[str]) -> bool:
    choices = {
        "node": known,
        "dtype": DTYPES,
        "memory_format": _LAYOUTS,
        "device": {"own"},
        "float": {"inf", "-inf", "nan"},
    }
    return isinstance(value, str) and value in choices.get(kind, ())
