"""Copies of answered batches that wait for a shadow. Pure; bounded by bytes."""

import enum
from collections import deque
from collections.abc import Sequence

from model_store.shadow import WHOLE, Shadow
from schemas.records import sticky_key
from stream_workers.batching.work import Answer, Batch, ServedVersion, WorkItem


class Drop(enum.StrEnum):
    """Why a copy came to nothing."""

    NOT_LOADED = "not_loaded"
    """No process of the shadow is loaded."""
    BUSY = "busy"
    """It does not keep up, or has no room beside what answers: so many bytes wait already."""
    LOST = "lost"
    """It was let go, or one of its processes ended, before the copy's turn."""
    UNSENT = "unsent"
    """Its comparison could not be written."""


def choose_items(shadow: Shadow, items: Sequence[WorkItem]) -> list[WorkItem]:
    """Return the records of an answered batch that are to be copied: those with an answer, by the shadow's share."""
    answered = [item for item in items if type(item.outcome) is Answer]
    if shadow.percent >= WHOLE:
        return answered
    return [item for item in answered if _takes(shadow, item)]


def count_bytes(batch: Batch) -> int:
    """What a copy holds in memory: requests and the answers to them."""
    outputs = (item.outcome.output for item in batch.items if type(item.outcome) is Answer)
    return batch.payload_bytes + sum(map(len, outputs))


class WaitingCopies:
    """First in, first out."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._serial = 0
        self._waiting: deque[Batch] = deque()
        self.bytes = 0

    def __len__(self) -> int:
        """Copies, by the batch."""
        return len(self._waiting)

    def add(self, items: Sequence[WorkItem], answered: Batch, version: ServedVersion) -> bool:
        """Add a copy of some records of a batch; False when it does not fit."""
        self._serial += 1
        batch = Batch(self._serial, items, answered.reason, version, is_copy=True)
        size = count_bytes(batch)
        if self.bytes + size > self._max_bytes:
            return False
        self._waiting.append(batch)
        self.bytes += size
        return True

    def take(self) -> Batch:
        """Remove and return the oldest. Raises IndexError when there is none."""
        batch = self._waiting.popleft()
        self.bytes -= count_bytes(batch)
        return batch

    def clear(self) -> int:
        """Drop all; returns how many records that were."""
        records = sum(len(batch.items) for batch in self._waiting)
        self._waiting.clear()
        self.bytes = 0
        return records


def _takes(shadow: Shadow, item: WorkItem) -> bool:
    request = item.request
    return shadow.takes(sticky_key(request.key, request.topic, request.partition, request.offset))
