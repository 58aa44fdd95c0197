"""That a cached file was verified, remembered beside it, so that a warm load costs a mapping and not a SHA-256.

A stamp names the boot and the file's device, inode, size, mtime and ctime. It holds as long as all of them do: any
write through the file system changes ctime, which no call can set back, and a power loss begins a new boot. So a file
is hashed when it enters the cache, once per boot, and after every change.

What this trusts is the cache folder, mode 0700: who can write there is the worker's own user, who could change its code
or memory as well, and whom a hash would not stop. A folder that others may write to is not trusted: stamps are ignored
and every open hashes. What it cannot see is a disk that returns other bytes under unchanged metadata within one boot.
"""

import os
import secrets
import stat
from pathlib import Path

from model_store.plain_files import read_plain
from schemas.errors import ModelStoreError

STAMP_SUFFIX = ".verified"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MAX_STAMP_BYTES = 512


def stamp_path(path: Path) -> Path:
    """Where the stamp of a cached file lies."""
    return path.with_name(path.name + STAMP_SUFFIX)


def is_private(directory: Path) -> bool:
    """Whether only this user can write to a folder."""
    status = directory.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def is_stamped(path: Path, status: os.stat_result) -> bool:
    """Whether the file at `path`, whose state is `status`, was verified as it is now. Marks it as used if so."""
    stamp = stamp_path(path)
    try:
        if not is_private(path.parent) or read_plain(stamp, _MAX_STAMP_BYTES) != _describe(status):
            return False
        os.utime(stamp)  # the order of eviction
    except (OSError, ModelStoreError):
        return False
    return True


def write_stamp(path: Path, status: os.stat_result) -> None:
    """Remember that the file at `path` was verified while its state was `status`. Raises OSError."""
    aside = path.with_name(f".stamp-{secrets.token_hex(8)}")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_describe(status))
        aside.rename(stamp_path(path))
    finally:
        aside.unlink(missing_ok=True)


def _describe(status: os.stat_result) -> bytes:
    boot = _BOOT_ID.read_text(encoding="ascii").strip()
    facts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return " ".join(("1", boot, *map(str, facts))).encode()
