"""`.npy` bytes to arrays: dense numbers only, nothing evaluated beyond the literal header, nothing allocated on trust.

`numpy.load` is never used on input. The header of a stream of like records is the same bytes each time, so its parse is
cached: a hit costs about a microsecond.
"""

import ast
import functools
import math
import re
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.errors import InvalidInputError, PayloadTooLargeError

MAGIC = b"\x93NUMPY"
MAX_HEADER_BYTES = 4096
MAX_DIMENSIONS = 32
_DTYPE = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248])")

Bytes = bytes | bytearray | memoryview
Array = npt.NDArray[Any]


class NpyHeader(NamedTuple):
    """What an `.npy` header promises: dtype as stored, shape, order, number of elements and of bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    elements: int
    payload_bytes: int


def decode_npy(data: Bytes, max_elements: int) -> Array:
    """Return the array of any shape, C-contiguous, native byte order, dtype bool, int, uint or float.

    The result may be a read-only view of `data`. Raises PayloadTooLargeError above `max_elements` and InvalidInputError
    for all else that is not exactly one such array.
    """
    start = _header_end(data)
    header = read_header(bytes(data[:start]))
    _check_size(header, len(data) - start, max_elements)
    array: Array = np.frombuffer(data, dtype=header.dtype, count=header.elements, offset=start)
    if header.dtype.kind == "b":
        array = array.view(np.uint8) != 0  # any byte but 0 and 1 would be undefined behaviour downstream
    if header.fortran:
        return _native(array.reshape(header.shape[::-1]).T)
    return _native(array.reshape(header.shape))


def stack_npy(parts: list[Bytes], max_elements: int) -> Array | None:
    """Return one writable array whose first axis is the records, when all share one header and length; else None.

    Raises as :func:`decode_npy` does. This is the fast way for a batch of like records: one join, no array per record.
    """
    first = parts[0]
    start = _header_end(first)
    prefix, size = bytes(first[:start]), len(first)
    if any(len(part) != size or part[:start] != prefix for part in parts):
        return None
    header = read_header(prefix)
    _check_size(header, size - start, max_elements)
    if header.fortran or header.dtype.kind == "b":
        return None
    joined = bytearray().join([part[start:] for part in parts])
    return _native(np.frombuffer(joined, dtype=header.dtype).reshape(len(parts), *header.shape))


def _native(array: Array) -> Array:
    native = array.dtype.newbyteorder("=")
    return np.ascontiguousarray(array if array.dtype == native else array.astype(native)).reshape(array.shape)


def _header_end(data: Bytes) -> int:
    """Where the elements begin, from the fixed part of the header alone."""
    if len(data) < 10 or data[:6] != MAGIC:
        raise InvalidInputError("not an .npy payload: it does not begin with the .npy magic")
    major = data[6]
    if major == 1:
        end = 10 + int.from_bytes(data[8:10], "little")
    elif major in (2, 3):
        end = 12 + int.from_bytes(data[8:12], "little")
    else:
        raise InvalidInputError(f".npy version {major} is not supported; 1, 2 and 3 are")
    if end > MAX_HEADER_BYTES or end > len(data):
        raise InvalidInputError(f".npy header of {end} bytes: at most {MAX_HEADER_BYTES} and no more than the payload")
    return end


def _check_size(header: NpyHeader, available: int, max_elements: int) -> None:
    if header.elements > max_elements or (header.shape and max(header.shape) > max_elements):
        raise PayloadTooLargeError(f".npy shape {_show(header.shape)}: at most {max_elements} elements are allowed")
    if header.payload_bytes != available:
        raise InvalidInputError(
            f".npy header promises {header.payload_bytes} bytes of elements, the payload has {available}"
        )


def _show(shape: tuple[int, ...]) -> str:
    text = "x".join(f"{size:.3g}" if size > 10**9 else str(size) for size in shape)
    return text if len(text) <= 100 else text[:99] + "…"


@functools.lru_cache(maxsize=256)
def read_header(prefix: bytes) -> NpyHeader:
    """Parse the bytes before the elements. Raises InvalidInputError."""
    start = 10 if prefix[6] == 1 else 12
    try:
        fields = ast.literal_eval(prefix[start:].decode("latin1").strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise InvalidInputError(".npy header is not a Python literal") from None
    if not isinstance(fields, dict) or fields.keys() != {"descr", "fortran_order", "shape"}:
        raise InvalidInputError(".npy header must have exactly descr, fortran_order and shape")
    descr, fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
    if not isinstance(descr, str) or not _DTYPE.fullmatch(descr):
        raise InvalidInputError(f".npy dtype {str(descr)[:40]!r}: only bool, int, uint and float are allowed")
    if not isinstance(fortran, bool):
        raise InvalidInputError(".npy fortran_order is not True or False")
    if not isinstance(shape, tuple) or len(shape) > MAX_DIMENSIONS or not all(type(n) is int and n >= 0 for n in shape):
        raise InvalidInputError(f".npy shape must be at most {MAX_DIMENSIONS} whole numbers from 0 on")
    if any(size >= 1 << 63 for size in shape):
        raise PayloadTooLargeError(".npy shape: a dimension does not fit 63 bits")
    dtype, count = np.dtype(descr), math.prod(shape)
    return NpyHeader(dtype, shape, fortran, count, count * dtype.itemsize)
