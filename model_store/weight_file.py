"""Is this file weights, and nothing but weights? Decided by content, whatever its name says."""

import os
from pathlib import Path
from typing import BinaryIO

from model_store.plain_files import open_plain
from model_store.safetensors_check import TensorEntry, UnsafeTensorsError, check_header, read_header_length
from schemas.errors import UnsafeFileError

_CODE_CARRIERS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"PK", "a zip archive (a torch checkpoint, TorchScript or .pt2 package)"),
    (0, b"\x80", "a pickle"),
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"BZh", "a bzip2 archive"),
    (0, b"\xfd7zXZ", "an xz archive"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (0, b"\x89HDF", "an HDF5 file"),
    (0, b"\x7fELF", "a shared library"),
    (257, b"ustar", "a tar archive"),
)


def check_weight_file(path: Path) -> tuple[TensorEntry, ...]:
    """Return the tensors of a sound safetensors file, reading only its header. Raises UnsafeFileError otherwise.

    There is no second way: a file that this refuses is never handed to another loader.
    """
    with open_plain(path) as file:
        return check_open_weights(file, os.fstat(file.fileno()).st_size, path.name)


def check_open_weights(file: BinaryIO, size: int, shown: str) -> tuple[TensorEntry, ...]:
    """As :func:`check_weight_file`, on an open file of `size` bytes; leaves its position after the header."""
    start = file.read(512)
    for offset, magic, what in _CODE_CARRIERS:
        if start[offset : offset + len(magic)] == magic and not _may_be_length(start, offset):
            raise UnsafeFileError(f"{shown} is {what}: only safetensors is accepted, since nothing in it can run")
    try:
        length = read_header_length(start, size)
        file.seek(8)
        return check_header(file.read(length), size - 8 - length)
    except UnsafeTensorsError as error:
        raise UnsafeFileError(f"{shown} is not a sound safetensors file: {error}") from None


def _may_be_length(start: bytes, offset: int) -> bool:
    """Whether a magic number could as well be a header length: a real header follows it with a brace."""
    return offset == 0 and start[5:9] == b"\0\0\0{"
