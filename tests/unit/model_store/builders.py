"""Inputs for the tests of this folder, made by code."""

import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from model_store.publishing import VersionDraft, publish_with
from model_store.store import ModelStore, ResolvedVersion

# A pickle, written by hand, that would run a command: refused wherever it appears.
CANARY_PICKLE = b"\x80\x02cos\nsystem\nX\x0c\x00\x00\x00touch canary\x85R."


def npy(header: str, body: bytes, version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(header) + 1)
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode("latin1") + b"\n" + body


def npy_header(descr: str = "<f4", shape: str = "(2, 3)", fortran: str = "False") -> str:
    return f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}"


def npy_of(array: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def safetensors(header: Any, body: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def tensor(begin: int, end: int, shape: list[int], dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


SOUND_WEIGHTS = safetensors({"a": tensor(0, 8, [2]), "b": tensor(8, 24, [2, 2])}, bytes(range(24)))


def publish(store: ModelStore, name: str = "m", version: str = "v1", weights: bytes = SOUND_WEIGHTS) -> ResolvedVersion:
    draft = VersionDraft(name, version, "some-class")
    return publish_with(store, draft, lambda path: write(path, weights))


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_header(width: int, height: int, depth: int = 8, colour: int = 2) -> bytes:
    return png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
