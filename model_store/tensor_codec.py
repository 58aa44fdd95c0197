"""A safetensors payload to named arrays: the header is checked by our own rules, then numpy views the bytes."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from model_store.safetensors_check import TensorEntry, UnsafeTensorsError, check_header, read_header_length
from schemas.errors import InvalidInputError, PayloadTooLargeError

MAX_HEADER_BYTES = 64 * 1024
MAX_TENSORS = 256
_DTYPES = {
    "U8": "u1",
    "I8": "i1",
    "I16": "<i2",
    "U16": "<u2",
    "F16": "<f2",
    "I32": "<i4",
    "U32": "<u4",
    "F32": "<f4",
    "I64": "<i8",
    "U64": "<u8",
    "F64": "<f8",
}


def decode_tensors(data: bytes | bytearray | memoryview, max_elements: int) -> dict[str, npt.NDArray[Any]]:
    """Return the tensors by name, each C-contiguous; BF16 becomes float32. The arrays may be read-only views of `data`.

    Raises PayloadTooLargeError when they hold more than `max_elements` in all, InvalidInputError for anything unsound.
    """
    try:
        length = read_header_length(bytes(data[:8]), len(data), MAX_HEADER_BYTES)
        entries = check_header(bytes(data[8 : 8 + length]), len(data) - 8 - length, MAX_TENSORS)
    except UnsafeTensorsError as error:
        raise InvalidInputError(f"safetensors payload: {error}") from None
    total = sum(math.prod(entry.shape) for entry in entries)
    if total > max_elements or any(size > max_elements for entry in entries for size in entry.shape):
        raise PayloadTooLargeError(f"safetensors payload: at most {max_elements} elements are allowed")
    return {entry.name: _view(data, 8 + length, entry) for entry in entries}


def _view(data: bytes | bytearray | memoryview, start: int, entry: TensorEntry) -> npt.NDArray[Any]:
    raw = np.frombuffer(data, np.uint8, entry.end - entry.begin, start + entry.begin)
    if entry.dtype == "BOOL":
        flags: npt.NDArray[Any] = (raw != 0).reshape(entry.shape)
        return flags
    if entry.dtype == "BF16":
        wide = raw.view("<u2").astype(np.uint32) << 16
        return wide.view(np.float32).reshape(entry.shape)
    array: npt.NDArray[Any] = raw.view(_DTYPES[entry.dtype]).reshape(entry.shape)
    return array
