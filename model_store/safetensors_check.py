"""What a safetensors header promises, checked against the file before anything is mapped or allocated.

Pure: header bytes and a size in, descriptions out. The rules are stricter than the format: offsets leave no gap, keys
are distinct at every level, and nothing may follow the last tensor.
"""

import json
import math
from typing import Any, NamedTuple

MAX_HEADER_BYTES = 16 << 20
MAX_TENSORS = 100_000
MAX_DIMENSIONS = 32
ITEM_BYTES = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "I64": 8,
    "U64": 8,
    "F64": 8,
}


class UnsafeTensorsError(ValueError):
    """Bytes that are not a sound safetensors file. The door that read them says whose fault that is."""


class TensorEntry(NamedTuple):
    """One tensor: name, dtype as written in the header, shape, and its bytes as offsets from the end of the header."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_header_length(prefix: bytes, total_bytes: int, max_header_bytes: int = MAX_HEADER_BYTES) -> int:
    """Return the length of the header from the first 8 bytes. Raises UnsafeTensorsError when it cannot be right."""
    if len(prefix) < 8:
        raise UnsafeTensorsError("shorter than the 8 bytes of a safetensors header length")
    length = int.from_bytes(prefix[:8], "little")
    if length > max_header_bytes or 8 + length > total_bytes:
        raise UnsafeTensorsError(f"header length {length}: at most {max_header_bytes} and no more than the file")
    return length


def check_header(header: bytes, data_bytes: int, max_tensors: int = MAX_TENSORS) -> tuple[TensorEntry, ...]:
    """Return the tensors in the order of their bytes, `data_bytes` being what follows the header.

    Raises UnsafeTensorsError for a duplicate key, an unknown dtype, a shape whose product is not its bytes, and for
    offsets that overlap, leave a gap, or do not end exactly at the end.
    """
    if header[:1] != b"{":
        raise UnsafeTensorsError("header does not begin with {")
    try:
        fields = json.loads(header, object_pairs_hook=_distinct, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UnsafeTensorsError(f"header is not sound JSON: {str(error)[:200]}") from None
    fields.pop("__metadata__", None)
    if len(fields) > max_tensors:
        raise UnsafeTensorsError(f"{len(fields)} tensors: at most {max_tensors} are allowed")
    entries = sorted((_entry(name, value) for name, value in fields.items()), key=lambda entry: entry[3:])
    position = 0
    for entry in entries:
        if entry.begin != position:
            problem = "overlaps the one before" if entry.begin < position else "leaves a gap before it"
            raise UnsafeTensorsError(f"tensor {entry.name[:80]!r} {problem}")
        position = entry.end
    if position != data_bytes:
        raise UnsafeTensorsError(f"tensors end at byte {position} of {data_bytes}: too few bytes, or trailing ones")
    return tuple(entries)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key is given twice")
    return fields


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _entry(name: str, value: Any) -> TensorEntry:
    shown = repr(name)[:80]
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise UnsafeTensorsError(f"tensor {shown} must have exactly dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise UnsafeTensorsError(f"tensor {shown}: dtype {str(dtype)[:20]!r} is not one of {', '.join(ITEM_BYTES)}")
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS or not all(map(_is_size, shape)):
        raise UnsafeTensorsError(f"tensor {shown}: shape is not at most {MAX_DIMENSIONS} sizes")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise UnsafeTensorsError(f"tensor {shown}: data_offsets is not two positions")
    begin, end = offsets
    if end - begin != math.prod(shape) * ITEM_BYTES[dtype]:
        raise UnsafeTensorsError(f"tensor {shown}: {end - begin} bytes are not shape times {dtype}")
    return TensorEntry(name, dtype, tuple(shape), begin, end)
