import hashlib
import io
from pathlib import Path
from typing import Any

import pytest

from model_store.hashed_copy import copy_hashing


class Slow(io.BytesIO):
    """Gives at most seven bytes at a time, as a network may."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(7, size) if size is not None and size >= 0 else 7)


@pytest.mark.parametrize("size", [0, 1, 7, 100, 1000])
def test_the_copy_and_the_hash_are_those_of_the_source(tmp_path: Path, size: int) -> None:
    data, told = bytes(range(256)) * 4, list[int]()
    data = data[:size]
    with (tmp_path / "copy").open("wb") as writer:
        found = copy_hashing(Slow(data), writer, size, told.append)

    assert found == hashlib.sha256(data).hexdigest()
    assert (tmp_path / "copy").read_bytes() == data
    assert sum(told) == size


@pytest.mark.parametrize("size", [0, 9, 11])
def test_a_source_of_another_size_has_no_hash(tmp_path: Path, size: int) -> None:
    with (tmp_path / "copy").open("wb") as writer:
        assert copy_hashing(Slow(bytes(10)), writer, size, lambda _: None) is None
    assert (tmp_path / "copy").stat().st_size <= size


def test_what_the_source_raises_comes_out_and_no_thread_stays(tmp_path: Path) -> None:
    class Broken(io.BytesIO):
        def read(self, *_: Any) -> bytes:
            raise OSError("gone")

    with (tmp_path / "copy").open("wb") as writer, pytest.raises(OSError, match="gone"):
        copy_hashing(Broken(), writer, 10, lambda _: None)
