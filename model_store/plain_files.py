"""Opening files that a hostile writer may have put there: no links, no devices, no surprise size."""

import contextlib
import hashlib
import os
import stat
from pathlib import Path
from typing import BinaryIO

from schemas.errors import UnsafeFileError, VersionNotFoundError

CHUNK_BYTES = 1 << 20


def open_plain(path: Path) -> BinaryIO:
    """Open a regular file with exactly one name for reading. Follows no link and waits for no writer.

    Raises VersionNotFoundError when it is not there and UnsafeFileError when it is anything else, or not readable.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise VersionNotFoundError(f"{path.name} is not there: {path}") from None
    except OSError as error:
        raise UnsafeFileError(f"{path} is not a readable plain file: {error.strerror}") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(descriptor)
        raise UnsafeFileError(f"{path} is not a plain file with one name (a link, a pipe, a device or a directory)")
    return os.fdopen(descriptor, "rb")


def read_plain(path: Path, max_bytes: int) -> bytes:
    """Read a small plain file. Raises as :func:`open_plain`, and UnsafeFileError above `max_bytes`, before reading."""
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = b"" if size > max_bytes else file.read(max_bytes + 1)
    if size > max_bytes or len(data) > max_bytes:
        raise UnsafeFileError(f"{path} is larger than {max_bytes} bytes")
    return data


def hash_file(file: BinaryIO) -> str:
    """Return the SHA-256 of the rest of a file, as lower-case hex."""
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def sync_directory(path: Path) -> None:
    """Make the names inside a directory survive a power loss."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def list_entries(directory: Path) -> list[tuple[Path, os.stat_result]]:
    """Return what a directory holds, following no link; what vanishes meanwhile, itself included, is left out."""
    found = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                found.append((Path(entry.path), entry.stat(follow_symlinks=False)))
    return found
