import errno
import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from model_store.local_cache import LocalCache
from schemas.errors import CacheFullError, ChecksumMismatchError, ModelStoreError
from schemas.manifest import FileEntry

KIB = 1024


@pytest.fixture
def cache(tmp_path: Path) -> LocalCache:
    return LocalCache(tmp_path / "cache", 10 * KIB)


def source(tmp_path: Path, fill: int, size: int = 4 * KIB) -> tuple[FileEntry, Path]:
    data = bytes([fill]) * size
    path = tmp_path / f"source-{fill}"
    path.write_bytes(data)
    return FileEntry(name="weights.safetensors", size=size, sha256=hashlib.sha256(data).hexdigest()), path


def cached_names(cache: LocalCache) -> set[str]:
    return {path.name for path in cache.directory.iterdir() if path.name != ".lock"}


def test_a_file_is_copied_once_and_found_afterwards(cache: LocalCache, tmp_path: Path) -> None:
    entry, path = source(tmp_path, 1)

    with cache.fetch(entry, path) as first:
        assert first.path.read_bytes() == path.read_bytes()
    path.unlink()
    with cache.fetch(entry, path) as again:
        assert again.path == first.path


def test_a_source_that_is_not_what_the_manifest_says_never_enters(cache: LocalCache, tmp_path: Path) -> None:
    entry, path = source(tmp_path, 1)

    for data in (b"\x02" * entry.size, b"\x01" * (entry.size - 1), b"\x01" * (entry.size + 1)):
        path.write_bytes(data)
        with pytest.raises(ChecksumMismatchError):
            cache.fetch(entry, path)
    assert cached_names(cache) == set()


def test_a_file_damaged_in_the_cache_is_fetched_afresh(cache: LocalCache, tmp_path: Path) -> None:
    entry, path = source(tmp_path, 1)
    with cache.fetch(entry, path) as cached:
        pass
    cached.path.chmod(0o644)
    cached.path.write_bytes(b"\x09" * entry.size)

    with cache.fetch(entry, path) as again:
        assert again.path.read_bytes() == path.read_bytes()


def test_what_was_used_longest_ago_makes_room(cache: LocalCache, tmp_path: Path) -> None:
    entries = [source(tmp_path, fill) for fill in range(3)]
    for age, (entry, path) in zip((1, 2), entries, strict=False):
        cache.fetch(entry, path).close()
        os.utime(cache.directory / entry.sha256, (age, age))
    os.utime(cache.directory / entries[0][0].sha256, (3, 3))

    cache.fetch(*entries[2]).close()

    assert cached_names(cache) == {entries[0][0].sha256, entries[2][0].sha256}


def test_what_is_in_use_is_never_dropped(cache: LocalCache, tmp_path: Path) -> None:
    entries = [source(tmp_path, fill) for fill in range(3)]
    held = [cache.fetch(*entry) for entry in entries[:2]]

    with pytest.raises(CacheFullError, match="in use"):
        cache.fetch(*entries[2])
    assert cached_names(cache) == {entry.sha256 for entry, _ in entries[:2]}

    held[1].close()
    cache.fetch(*entries[2]).close()
    assert cached_names(cache) == {entries[0][0].sha256, entries[2][0].sha256}
    held[0].close()


def test_what_another_process_uses_is_never_dropped(cache: LocalCache, tmp_path: Path) -> None:
    entries = [source(tmp_path, fill, 6 * KIB) for fill in range(2)]
    script = (
        "import sys; from pathlib import Path; from model_store.local_cache import LocalCache;"
        "from schemas.manifest import FileEntry; c, s, h = sys.argv[1:];"
        "f = LocalCache(Path(c), 10240).fetch(FileEntry(name='w', size=6144, sha256=h), Path(s));"
        "print('held', flush=True); sys.stdin.read()"
    )
    arguments = [str(cache.directory), str(entries[0][1]), entries[0][0].sha256]
    with subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"

        with pytest.raises(CacheFullError):
            cache.fetch(*entries[1])
        holder.kill()
    cache.fetch(*entries[1]).close()


def test_a_file_larger_than_the_cache_is_refused_and_drops_nothing_in_vain(cache: LocalCache, tmp_path: Path) -> None:
    with pytest.raises(CacheFullError):
        cache.fetch(*source(tmp_path, 1, 11 * KIB))
    assert cached_names(cache) == set()


def test_leftovers_of_killed_processes_go_first(cache: LocalCache, tmp_path: Path) -> None:
    cache.directory.mkdir()
    (cache.directory / ".incoming-dead").write_bytes(bytes(9 * KIB))

    cache.fetch(*source(tmp_path, 1)).close()

    assert len(cached_names(cache)) == 1


@pytest.mark.parametrize("call", ["posix_fallocate", "fsync"])
def test_a_full_disk_is_a_typed_error_and_leaves_no_half_file(
    cache: LocalCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, refuse)

    with pytest.raises(CacheFullError, match="no space left"):
        cache.fetch(*source(tmp_path, 1))
    assert cached_names(cache) == set()


def test_a_cache_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(ModelStoreError, match="model cache"):
        LocalCache(tmp_path / "file" / "cache", KIB).fetch(*source(tmp_path, 1))


def test_many_at_once_share_one_copy(cache: LocalCache, tmp_path: Path) -> None:
    entry, path = source(tmp_path, 1)
    roomy = LocalCache(cache.directory, 100 * KIB)
    failures: list[BaseException] = []

    def fetch() -> None:
        try:
            with roomy.fetch(entry, path) as cached:
                if cached.path.read_bytes() != path.read_bytes():
                    failures.append(AssertionError("another content"))
        except ModelStoreError as error:
            failures.append(error)

    threads = [threading.Thread(target=fetch) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert cached_names(cache) == {entry.sha256}
