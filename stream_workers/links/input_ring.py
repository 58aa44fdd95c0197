"""Shared memory between one member and one model process: a page of progress words, then slots for batches.

The member writes a batch into a slot that is free; the model process only reads it. The progress words go the other way
and outlive the writer, which is how the member knows what a dead process was at.
"""

import fcntl
import mmap
import os
import tempfile
import time
from typing import NamedTuple

from schemas.settings import Settings

PAGE_BYTES = 4096
IDLE = -1
"""Batch word: no batch in hand. Record word: code that touches all records at once."""

_BATCH, _RECORD, _COUNTER, _TIME_NS, _ANSWERS, _PREPARING, _PREPARING_COUNTER = range(7)
_SEALS = getattr(fcntl, "F_SEAL_SHRINK", 0) | getattr(fcntl, "F_SEAL_GROW", 0) | getattr(fcntl, "F_SEAL_SEAL", 0)


class Progress(NamedTuple):
    """What a model process is at. `counter` moves with every step; `answers` counts what it has answered."""

    batch_id: int
    record: int
    counter: int
    time_ns: int
    """Monotonic, of the last step."""
    answers: int
    preparing: int = IDLE
    """The batch that is prepared by another thread while `batch_id` runs."""


def slot_bytes_for(settings: Settings) -> int:
    """Bytes of one slot: the largest batch, in whole pages."""
    return -(-settings.batching.max_batch_bytes // PAGE_BYTES) * PAGE_BYTES


def create_ring(slots: int, slot_bytes: int) -> int:
    """Return the descriptor of fresh shared memory without a name. Pages take memory once they are written to."""
    size = PAGE_BYTES + slots * slot_bytes
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("headrace-ring", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(descriptor, size)
        # A file that cannot shrink cannot turn the other side's reads into SIGBUS.
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
        return descriptor
    with tempfile.TemporaryFile() as file:
        file.truncate(size)
        return os.dup(file.fileno())


class InputRing:
    """One side's mapping. Closes the descriptor it is given; the mapping lives as long as the object."""

    def __init__(self, descriptor: int, slots: int, slot_bytes: int) -> None:
        self.slots = slots
        self.slot_bytes = slot_bytes
        try:
            self._map = mmap.mmap(descriptor, PAGE_BYTES + slots * slot_bytes)
        finally:
            os.close(descriptor)
        self._view = memoryview(self._map)
        # Eight aligned bytes are stored in one go, so the other side never sees half a word.
        self._words = self._view[:PAGE_BYTES].cast("q")

    def write(self, slot: int, data: bytes) -> None:
        """Put a batch into a slot. Raises ValueError when it does not fit, before anything is written."""
        if len(data) > self.slot_bytes or not 0 <= slot < self.slots:
            raise ValueError(f"{len(data)} bytes for slot {slot}: there are {self.slots} of {self.slot_bytes} bytes")
        start = PAGE_BYTES + slot * self.slot_bytes
        self._map[start : start + len(data)] = data

    def read(self, slot: int, size: int) -> memoryview:
        """Return a read-only view of the first `size` bytes of a slot. Raises ValueError when it has not so many."""
        if not 0 <= size <= self.slot_bytes or not 0 <= slot < self.slots:
            raise ValueError(f"{size} bytes of slot {slot}: there are {self.slots} of {self.slot_bytes} bytes")
        start = PAGE_BYTES + slot * self.slot_bytes
        return self._view[start : start + size].toreadonly()

    def progress(self) -> Progress:
        """Return what the model process is at."""
        words = self._words
        counter = words[_COUNTER] + words[_PREPARING_COUNTER]
        return Progress(
            words[_BATCH], words[_RECORD], counter, words[_TIME_NS], words[_ANSWERS], words[_PREPARING] + IDLE
        )

    def reset(self) -> None:
        """Model process: nothing in hand. Does not speak for the thread that prepares."""
        self._words[_BATCH] = self._words[_RECORD] = IDLE
        self._step()

    def begin(self, batch_id: int) -> None:
        """Model process: this batch is in hand from now on."""
        self._words[_RECORD] = IDLE
        self._words[_BATCH] = batch_id
        self._step()

    def touch(self, record: int) -> None:
        """Model process: this record is being worked on."""
        self._words[_RECORD] = record
        self._step()

    def prepare(self, batch_id: int) -> None:
        """Model process, the thread that prepares: this batch is in work beside the one in hand, IDLE for none."""
        self._words[_PREPARING] = batch_id - IDLE  # fresh memory says none
        self.touch_preparing()

    def touch_preparing(self) -> None:
        """Model process, the thread that prepares: it goes on. Each thread counts for itself, so none is lost."""
        self._words[_PREPARING_COUNTER] += 1

    def count_answer(self) -> None:
        """Model process: an answer was sent, to a batch or, in isolated mode, to a record."""
        self._words[_ANSWERS] += 1

    def close(self) -> None:
        """Give the mapping back. No view that was read may be in use."""
        self._words.release()
        self._view.release()
        self._map.close()

    def _step(self) -> None:
        self._words[_TIME_NS] = time.monotonic_ns()
        self._words[_COUNTER] += 1
