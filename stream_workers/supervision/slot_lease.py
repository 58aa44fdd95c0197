"""Slot numbers of the members on this host, each held by one supervisor at a time through a lock on a file."""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Self

from schemas.errors import ConfigurationError

MAX_SLOTS = 1024


class SlotLease:
    """One slot number. The kernel drops the lock when the holder ends, however it ends; the file stays."""

    def __init__(self, number: int, descriptor: int) -> None:
        self.number = number
        self._descriptor = descriptor

    def release(self) -> None:
        """Let the number go."""
        with contextlib.suppress(OSError):
            os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.release()


def lease_slots(folder: Path, count: int) -> list[SlotLease]:
    """Lease the `count` lowest free numbers. Raises ConfigurationError when the folder does not allow it."""
    leases: list[SlotLease] = []
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number in range(MAX_SLOTS):
            if len(leases) == count:
                return leases
            descriptor = _try_lock(folder / f"slot-{number}.lock")
            if descriptor is not None:
                leases.append(SlotLease(number, descriptor))
    except OSError as error:
        _release_all(leases)
        raise ConfigurationError(f"worker.state_dir {folder}: {error.strerror}") from error
    _release_all(leases)
    raise ConfigurationError(f"worker.state_dir {folder}: all {MAX_SLOTS} slots are taken")


def _try_lock(path: Path) -> int | None:
    # Python's descriptors are not inherited, so no child can keep a lock that its supervisor lost.
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _release_all(leases: list[SlotLease]) -> None:
    for lease in leases:
        lease.release()
