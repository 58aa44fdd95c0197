import errno
import hashlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from model_store import local_cache, verified_stamp
from model_store.local_cache import CachedFile, LocalCache
from model_store.plain_files import open_plain
from model_store.verified_stamp import STAMP_SUFFIX, stamp_path
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


def fetch_from(cache: LocalCache, entry: FileEntry, path: Path) -> CachedFile:
    return cache.fetch(entry, lambda: open_plain(path))


def cached_names(cache: LocalCache) -> set[str]:
    return {path.name for path in cache.directory.iterdir() if path.suffix != STAMP_SUFFIX and path.name != ".lock"}


def test_a_file_is_copied_once_and_found_afterwards(cache: LocalCache, tmp_path: Path) -> None:
    entry, path = source(tmp_path, 1)

    with fetch_from(cache, entry, path) as first:
        assert first.path.read_bytes() == path.read_bytes()
    path.unlink()
    with fetch_from(cache, entry, path) as again:
        assert again.path == first.path


def test_a_source_that_is_not_what_the_manifest_says_never_enters(cache: LocalCache, tmp_path: Path) -> None:
    entry, path = source(tmp_path, 1)

    for data in (b"\x02" * entry.size, b"\x01" * (entry.size - 1), b"\x01" * (entry.size + 1)):
        path.write_bytes(data)
        with pytest.raises(ChecksumMismatchError):
            fetch_from(cache, entry, path)
    assert cached_names(cache) == set()


def test_a_file_damaged_in_the_cache_is_fetched_afresh(cache: LocalCache, tmp_path: Path) -> None:
    entry, path = source(tmp_path, 1)
    with fetch_from(cache, entry, path) as cached:
        pass
    cached.path.chmod(0o644)
    cached.path.write_bytes(b"\x09" * entry.size)

    with fetch_from(cache, entry, path) as again:
        assert again.path.read_bytes() == path.read_bytes()


def test_what_was_used_longest_ago_makes_room(cache: LocalCache, tmp_path: Path) -> None:
    entries = [source(tmp_path, fill) for fill in range(3)]
    for age, (entry, path) in zip((1, 2), entries, strict=False):
        fetch_from(cache, entry, path).close()
        os.utime(stamp_path(cache.directory / entry.sha256), (age, age))
    os.utime(stamp_path(cache.directory / entries[0][0].sha256), (3, 3))

    fetch_from(cache, *entries[2]).close()

    assert cached_names(cache) == {entries[0][0].sha256, entries[2][0].sha256}


def test_what_is_in_use_is_never_dropped(cache: LocalCache, tmp_path: Path) -> None:
    entries = [source(tmp_path, fill) for fill in range(3)]
    held = [fetch_from(cache, *entry) for entry in entries[:2]]

    with pytest.raises(CacheFullError, match="in use"):
        fetch_from(cache, *entries[2])
    assert cached_names(cache) == {entry.sha256 for entry, _ in entries[:2]}

    held[1].close()
    fetch_from(cache, *entries[2]).close()
    assert cached_names(cache) == {entries[0][0].sha256, entries[2][0].sha256}
    held[0].close()


def test_what_another_process_uses_is_never_dropped(cache: LocalCache, tmp_path: Path) -> None:
    entries = [source(tmp_path, fill, 6 * KIB) for fill in range(2)]
    script = (
        "import sys; from pathlib import Path; from model_store.local_cache import LocalCache;"
        "from schemas.manifest import FileEntry; c, s, h = sys.argv[1:];"
        "f = LocalCache(Path(c), 10240).fetch(FileEntry(name='w', size=6144, sha256=h), lambda: open(s, 'rb'));"
        "print('held', flush=True); sys.stdin.read()"
    )
    arguments = [str(cache.directory), str(entries[0][1]), entries[0][0].sha256]
    with subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"

        with pytest.raises(CacheFullError):
            fetch_from(cache, *entries[1])
        holder.kill()
    fetch_from(cache, *entries[1]).close()


def test_a_file_larger_than_the_cache_is_refused_and_drops_nothing_in_vain(cache: LocalCache, tmp_path: Path) -> None:
    with pytest.raises(CacheFullError):
        fetch_from(cache, *source(tmp_path, 1, 11 * KIB))
    assert cached_names(cache) == set()


def test_leftovers_of_killed_processes_go_first(cache: LocalCache, tmp_path: Path) -> None:
    cache.directory.mkdir()
    (cache.directory / ".incoming-dead").write_bytes(bytes(9 * KIB))

    fetch_from(cache, *source(tmp_path, 1)).close()

    assert len(cached_names(cache)) == 1


@pytest.mark.parametrize("call", ["posix_fallocate", "fsync"])
def test_a_full_disk_is_a_typed_error_and_leaves_no_half_file(
    cache: LocalCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, refuse)

    with pytest.raises(CacheFullError, match="no space left"):
        fetch_from(cache, *source(tmp_path, 1))
    assert cached_names(cache) == set()


def test_a_cache_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(ModelStoreError, match="model cache"):
        fetch_from(LocalCache(tmp_path / "file" / "cache", KIB), *source(tmp_path, 1))


def test_many_at_once_share_one_copy(cache: LocalCache, tmp_path: Path) -> None:
    entry, path = source(tmp_path, 1)
    roomy = LocalCache(cache.directory, 100 * KIB)
    failures: list[BaseException] = []

    def fetch() -> None:
        try:
            with fetch_from(roomy, entry, path) as cached:
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


def count_hashes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is hashed from now on, one item a file."""
    hashed: list[str] = []
    plain = local_cache.hash_file

    def counting(file: BinaryIO) -> str:
        hashed.append(plain(file))
        return hashed[-1]

    monkeypatch.setattr(local_cache, "hash_file", counting)
    return hashed


def test_a_file_is_hashed_while_it_is_fetched_and_not_again_on_this_boot(
    cache: LocalCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = count_hashes(monkeypatch)
    first = fetch_from(cache, *source(tmp_path, 1))
    again = fetch_from(cache, *source(tmp_path, 1))

    assert (first.was_there, again.was_there) == (False, True)
    assert hashed == []
    first.close()
    again.close()


def test_another_boot_hashes_once_more(cache: LocalCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch_from(cache, *source(tmp_path, 1)).close()
    (tmp_path / "boot").write_text("another")
    monkeypatch.setattr(verified_stamp, "_BOOT_ID", tmp_path / "boot")
    hashed = count_hashes(monkeypatch)

    fetch_from(cache, *source(tmp_path, 1)).close()
    fetch_from(cache, *source(tmp_path, 1)).close()

    assert len(hashed) == 1


def test_without_a_boot_id_every_open_hashes(
    cache: LocalCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verified_stamp, "_BOOT_ID", tmp_path / "none")
    hashed = count_hashes(monkeypatch)

    for _ in range(3):
        fetch_from(cache, *source(tmp_path, 1)).close()

    assert len(hashed) == 3


def test_damage_that_keeps_size_and_mtime_is_found(cache: LocalCache, tmp_path: Path) -> None:
    entry, path = source(tmp_path, 1)
    with fetch_from(cache, entry, path) as cached:
        before = cached.path.stat()
    cached.path.chmod(0o644)
    cached.path.write_bytes(b"\x09" * entry.size)
    os.utime(cached.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    cached.path.chmod(0o444)

    with fetch_from(cache, entry, path) as again:
        assert again.path.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("stamp", [b"", b"1 x", b"1" * 9999])
def test_a_stamp_that_says_something_else_is_not_believed(
    cache: LocalCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stamp: bytes
) -> None:
    with fetch_from(cache, *source(tmp_path, 1)) as cached:
        stamp_path(cached.path).write_bytes(stamp)
    hashed = count_hashes(monkeypatch)

    fetch_from(cache, *source(tmp_path, 1)).close()

    assert len(hashed) == 1


def test_a_folder_that_others_may_write_to_is_not_trusted(
    cache: LocalCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch_from(cache, *source(tmp_path, 1)).close()
    cache.directory.chmod(0o770)
    hashed = count_hashes(monkeypatch)

    fetch_from(cache, *source(tmp_path, 1)).close()

    assert len(hashed) == 1


def test_stamps_are_private_and_go_with_their_file(cache: LocalCache, tmp_path: Path) -> None:
    entries = [source(tmp_path, fill, 6 * KIB) for fill in range(2)]
    with fetch_from(cache, *entries[0]) as cached:
        assert stamp_path(cached.path).stat().st_mode & 0o777 == 0o600

    fetch_from(cache, *entries[1]).close()

    assert not stamp_path(cached.path).exists()
    assert cached_names(cache) == {entries[1][0].sha256}


def test_folders_in_the_cache_are_left_alone_when_room_is_made(cache: LocalCache, tmp_path: Path) -> None:
    (cache.directory / "compiled").mkdir(parents=True)
    for fill in range(3):
        fetch_from(cache, *source(tmp_path, fill, 6 * KIB)).close()

    assert (cache.directory / "compiled").is_dir()


def test_progress_counts_every_byte_of_the_source_once(cache: LocalCache, tmp_path: Path) -> None:
    entry, path = source(tmp_path, 1)
    told: list[int] = []

    cache.fetch(entry, lambda: open_plain(path), told.append).close()
    cache.fetch(entry, lambda: open_plain(path), told.append).close()

    assert sum(told) == entry.size
