"""Verified copies of weights on this host, named by their SHA-256, bounded in bytes, shared by all its processes.

Rules: a file is visible only whole and verified (written aside, hashed while written, linked in); a file in use holds a
shared lock and is never dropped; one lock guards the accounting. A process that dies drops its locks with it. A file is
hashed again once per boot and after every change to it: see :mod:`model_store.verified_stamp` for why that is enough.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Self

from model_store.hashed_copy import copy_hashing
from model_store.plain_files import hash_file, list_entries
from model_store.verified_stamp import STAMP_SUFFIX, is_private, is_stamped, stamp_path, write_stamp
from model_store.version_store import StoredVersion
from schemas.errors import CacheFullError, ChecksumMismatchError, ManifestError, ModelStoreError
from schemas.manifest import WEIGHTS_FILE, FileEntry

_INCOMING = ".incoming-"
_LOCK = ".lock"
_ATTEMPTS = 3

Progress = Callable[[int], None]
"""Told how many more bytes have been read from the source."""


def _ignore(read_bytes: int) -> None:
    pass


class CachedFile:
    """A verified file that stays in the cache until this is closed. The process that maps the file must hold it."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.was_there = True
        """False when it had to be fetched just now."""
        self._file = file

    def close(self) -> None:
        """Let the cache drop the file when it needs the room. What is mapped already stays readable."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class LocalCache:
    """A cache directory. Opens nothing until it is asked; any number of processes may use the same one."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self.directory = directory
        self.max_bytes = max_bytes

    def fetch_weights(self, stored: StoredVersion, progress: Progress = _ignore) -> CachedFile:
        """Fetch the weights of a version. Raises as :meth:`fetch`, and ManifestError when it lists none."""
        for entry in stored.manifest.files:
            if entry.name == WEIGHTS_FILE:
                return self.fetch(entry, lambda: stored.open_file(entry), progress)  # noqa: B023 - called before the next
        raise ManifestError(f"{stored.name}/{stored.version}: the manifest lists no {WEIGHTS_FILE}")

    def fetch(self, entry: FileEntry, open_source: Callable[[], BinaryIO], progress: Progress = _ignore) -> CachedFile:
        """Return the cached copy of a file, verified by its SHA-256. The source is opened only when there is none.

        Raises ChecksumMismatchError when the source is not what `entry` says, CacheFullError when there is no room
        even without all that is unused, ModelStoreError when the disk refuses, and what opening and reading the source
        raises: VersionNotFoundError for a version that was removed meanwhile. None leaves half a file.
        """
        was_there = True
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            for _ in range(_ATTEMPTS):
                if cached := self._open_verified(entry):
                    cached.was_there = was_there
                    return cached
                was_there = False
                self._copy_in(entry, open_source, progress)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise CacheFullError(f"no space left for {entry.size} bytes in {self.directory}") from None
            raise ModelStoreError(f"model cache {self.directory}: {error.strerror}") from error
        raise CacheFullError(f"{entry.sha256} was dropped from {self.directory} as often as it was copied in")

    def _open_verified(self, entry: FileEntry) -> CachedFile | None:
        path = self.directory / entry.sha256
        try:
            file = path.open("rb")
        except FileNotFoundError:
            return None
        fcntl.flock(file, fcntl.LOCK_SH)
        # State before content: what is written meanwhile leaves a stamp that no longer fits.
        status = os.fstat(file.fileno())
        is_linked = bool(status.st_nlink)  # else dropped between open and lock
        if is_linked and is_stamped(path, status):
            return CachedFile(path, file)
        if is_linked and hash_file(file) == entry.sha256:
            self._stamp(path, status)
            return CachedFile(path, file)
        if is_linked:  # damaged on this disk
            path.unlink(missing_ok=True)
        file.close()
        return None

    def _copy_in(self, entry: FileEntry, open_source: Callable[[], BinaryIO], progress: Progress) -> None:
        incoming, path = self.directory / f"{_INCOMING}{secrets.token_hex(8)}", self.directory / entry.sha256
        is_ours = False
        with open_source() as reader, self._reserve(incoming, entry.size) as writer:
            try:
                found = copy_hashing(reader, writer, entry.size, progress) or "that of a file of another size"
                if found != entry.sha256:
                    raise ChecksumMismatchError(f"{entry.name}: SHA-256 is {found}, the manifest says {entry.sha256}")
                os.fchmod(writer.fileno(), 0o444)
                with contextlib.suppress(FileExistsError):  # another process was faster with the very same bytes
                    os.link(incoming, path)
                    is_ours = True
            finally:
                incoming.unlink(missing_ok=True)
            if is_ours:
                self._stamp(path, os.fstat(writer.fileno()))

    def _stamp(self, path: Path, status: os.stat_result) -> None:
        """Without a stamp the next open hashes again, which costs time alone: a full disk is no reason to fail."""
        with contextlib.suppress(OSError):
            if is_private(self.directory):
                write_stamp(path, status)
            else:
                os.utime(path)  # the order of eviction

    def _reserve(self, path: Path, size: int) -> BinaryIO:
        """Make room, then take all of it at once, so that neither the bound nor the disk runs out half way."""
        with self._lock():
            self._make_room(size)
            file = path.open("xb")
            try:
                fcntl.flock(file, fcntl.LOCK_SH)
                if size:
                    os.posix_fallocate(file.fileno(), 0, size)
            except OSError:
                file.close()
                path.unlink(missing_ok=True)
                raise
        return file

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        with (self.directory / _LOCK).open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _make_room(self, needed: int) -> None:
        # Only files count: compiled code lies in a folder here.
        found = [(path, status) for path, status in list_entries(self.directory) if stat.S_ISREG(status.st_mode)]
        entries = {path.name: (path, status) for path, status in found if path.name != _LOCK}
        stamps = {name: entries.pop(name)[1] for name in list(entries) if name.endswith(STAMP_SUFFIX)}
        files = [(status, path, stamps.get(stamp_path(path).name, status)) for path, status in entries.values()]
        total = sum(status.st_size for status, _, _ in files)
        # Leftovers of killed processes go first, then what was used longest ago.
        for status, path, _ in sorted(files, key=lambda item: (item[1].name[:1] != ".", item[2].st_mtime_ns)):
            unneeded = path.name.startswith(".")
            if (unneeded or total + needed > self.max_bytes) and _drop_unused(path):
                stamp_path(path).unlink(missing_ok=True)
                total -= status.st_size
        if total + needed > self.max_bytes:
            raise CacheFullError(
                f"{needed} bytes do not fit: {total} of {self.max_bytes} bytes in {self.directory} are in use"
            )


def _drop_unused(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
        return True
    return False
