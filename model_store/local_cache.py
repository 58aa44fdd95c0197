"""Verified copies of weights on this host, named by their SHA-256, bounded in bytes, shared by all its processes.

Rules: a file is visible only whole and verified (written aside, hashed while written, linked in); a file in use holds a
shared lock and is never dropped; one lock guards the accounting. A process that dies drops its locks with it.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self

from model_store.plain_files import CHUNK_BYTES, hash_file, list_entries, open_plain
from model_store.store import ResolvedVersion
from schemas.errors import CacheFullError, ChecksumMismatchError, ManifestError, ModelStoreError
from schemas.manifest import WEIGHTS_FILE, FileEntry

_INCOMING = ".incoming-"
_LOCK = ".lock"
_ATTEMPTS = 3


class CachedFile:
    """A verified file that stays in the cache until this is closed. The process that maps the file must hold it."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
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

    def fetch_weights(self, resolved: ResolvedVersion) -> CachedFile:
        """Fetch the weights of a version. Raises as :meth:`fetch`, and ManifestError when it lists none."""
        for entry in resolved.manifest.files:
            if entry.name == WEIGHTS_FILE:
                return self.fetch(entry, resolved.directory / entry.name)
        raise ManifestError(f"{resolved.name}/{resolved.version}: the manifest lists no {WEIGHTS_FILE}")

    def fetch(self, entry: FileEntry, source: Path) -> CachedFile:
        """Return the cached copy of `source`, verified by its SHA-256 now, be it old or new.

        Raises ChecksumMismatchError when the source is not what `entry` says, CacheFullError when there is no room
        even without all that is unused, ModelStoreError when the disk refuses. None leaves half a file.
        """
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            for _ in range(_ATTEMPTS):
                if cached := self._open_verified(entry):
                    return cached
                self._copy_in(entry, source)
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
        linked = bool(os.fstat(file.fileno()).st_nlink)  # else dropped between open and lock
        if linked and hash_file(file) == entry.sha256:
            os.utime(file.fileno())  # the order of eviction
            return CachedFile(path, file)
        if linked:  # damaged on this disk
            path.unlink(missing_ok=True)
        file.close()
        return None

    def _copy_in(self, entry: FileEntry, source: Path) -> None:
        incoming = self.directory / f"{_INCOMING}{secrets.token_hex(8)}"
        with open_plain(source) as reader, self._reserve(incoming, entry.size) as writer:
            try:
                found = _copy_hashing(reader, writer, entry.size)
                if found != entry.sha256:
                    raise ChecksumMismatchError(f"{source}: SHA-256 is {found}, the manifest says {entry.sha256}")
                os.fchmod(writer.fileno(), 0o444)
                os.fsync(writer.fileno())
                with contextlib.suppress(FileExistsError):  # another process was faster with the very same bytes
                    os.link(incoming, self.directory / entry.sha256)
            finally:
                incoming.unlink(missing_ok=True)

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
        files = [(status, path) for path, status in list_entries(self.directory) if path.name != _LOCK]
        total = sum(status.st_size for status, _ in files)
        # Leftovers of killed processes go first, then what was used longest ago.
        for status, path in sorted(files, key=lambda item: (item[1].name[:1] != ".", item[0].st_mtime_ns)):
            unneeded = path.name.startswith(_INCOMING)
            if (unneeded or total + needed > self.max_bytes) and _drop_unused(path):
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


def _copy_hashing(reader: BinaryIO, writer: BinaryIO, size: int) -> str:
    digest, left = hashlib.sha256(), size
    while left and (chunk := reader.read(min(CHUNK_BYTES, left))):
        writer.write(chunk)
        digest.update(chunk)
        left -= len(chunk)
    if left or reader.read(1):
        return "that of a file of another size"
    writer.flush()
    return digest.hexdigest()
