import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest

from model_store.legacy_archive import read_pinned_archive
from schemas.errors import ChecksumMismatchError, UnsafeFileError
from tests.unit.model_store.builders import CANARY_PICKLE

HEAD = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + b"\x80\x02M\xe9\x03." + b"\x80\x02}."


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def tensor(key: str, items: int, start: int, shape: bytes, strides: bytes) -> bytes:
    storage = (
        b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(key) + text("cpu") + b"K" + bytes([items]) + b"NtQ"
    )
    hooks = b"\x89ccollections\nOrderedDict\n)R"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K" + bytes([start]) + shape + strides + hooks + b"tR"


def archive(value: bytes, keys: bytes, tail: bytes) -> bytes:
    state = b"\x80\x02ccollections\nOrderedDict\n)R(" + text("w") + value + b"u}b."
    return HEAD + state + b"\x80\x02](" + keys + b"e." + tail


def read(tmp_path: Path, data: bytes) -> dict[str, np.ndarray]:
    path = tmp_path / "old.pth"
    path.write_bytes(data)
    return read_pinned_archive(path, hashlib.sha256(data).hexdigest())


SIX = struct.pack("<q6f", 6, *range(6))


def test_a_state_dict_is_read_as_data(tmp_path: Path) -> None:
    data = archive(tensor("7", 6, 0, b"K\x02K\x03\x86", b"K\x03K\x01\x86"), text("7"), SIX)

    assert read(tmp_path, data)["w"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_strides_and_starts_are_followed(tmp_path: Path) -> None:
    data = archive(tensor("7", 6, 1, b"K\x02K\x02\x86", b"K\x01K\x02\x86"), text("7"), SIX)

    assert read(tmp_path, data)["w"].tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize(
    "data",
    [
        CANARY_PICKLE,
        HEAD + CANARY_PICKLE,
        archive(tensor("7", 6, 1, b"K\x02K\x03\x86", b"K\x03K\x01\x86"), text("7"), SIX),
        archive(tensor("7", 6, 0, b"K\x02K\x03\x86", b"K\x09K\x01\x86"), text("7"), SIX),
        archive(tensor("7", 9, 0, b"K\x02K\x03\x86", b"K\x03K\x01\x86"), text("7"), SIX),
        archive(tensor("7", 6, 0, b"K\x02\x85", b"K\x03K\x01\x86"), text("7"), SIX),
        archive(tensor("7", 6, 0, b"K\x06\x85", b"K\x01\x85"), text("8"), SIX),
        archive(tensor("7", 6, 0, b"K\x06\x85", b"K\x01\x85"), text("7"), SIX + b"more"),
        archive(tensor("7", 6, 0, b"K\x06\x85", b"K\x01\x85"), text("7"), SIX[:-1]),
        archive(b"cos\nsystem\n" + text("touch canary") + b"\x85R", text("7"), SIX),
        archive(b"N", text("7"), SIX),
        HEAD,
        b"",
    ],
)
def test_anything_else_ends_the_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UnsafeFileError):
        read(tmp_path, data)
    assert not (tmp_path / "canary").exists()


def test_a_file_with_another_hash_is_not_looked_into(tmp_path: Path) -> None:
    path = tmp_path / "old.pth"
    path.write_bytes(CANARY_PICKLE)

    with pytest.raises(ChecksumMismatchError):
        read_pinned_archive(path, "0" * 64)
