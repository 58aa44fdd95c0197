"""Decides which queued records are out of date because their stream has newer ones. For live video. Pure.

A stream is the records of one key in one partition. Records without a key belong to no stream and are never dropped.
"""

from collections import deque
from collections.abc import Iterable

from stream_workers.batching.work import WorkItem

StreamKey = tuple[str, int, bytes]

MIN_SWEEP = 1024


class LiveStreams:
    """What waits of each stream, oldest first. Records that have left their queue are forgotten by and by."""

    def __init__(self) -> None:
        self._waiting: dict[StreamKey, deque[WorkItem]] = {}
        self._sweep_at = MIN_SWEEP

    def __len__(self) -> int:
        """Streams held."""
        return len(self._waiting)

    def add(self, items: Iterable[WorkItem]) -> None:
        """Follow records that have just been queued, in offset order."""
        for item in items:
            request = item.request
            if request.key is None:
                continue
            stream = (request.topic, request.partition, request.key)
            waiting = self._waiting.get(stream)
            if waiting is None:
                waiting = self._waiting[stream] = deque()
            _trim(waiting)
            waiting.append(item)
        if len(self._waiting) >= self._sweep_at:
            self._sweep()

    def take_superseded(self) -> list[WorkItem]:
        """Return every queued record that a newer queued one of its stream has overtaken, and forget it."""
        overtaken = []
        for waiting in self._waiting.values():
            while len(waiting) > 1:
                item = waiting.popleft()
                if item.queued:
                    overtaken.append(item)
        self._sweep()
        return overtaken

    def _sweep(self) -> None:
        for waiting in self._waiting.values():
            _trim(waiting)
        self._waiting = {stream: waiting for stream, waiting in self._waiting.items() if waiting}
        self._sweep_at = max(MIN_SWEEP, 2 * len(self._waiting))


def _trim(waiting: deque[WorkItem]) -> None:
    while waiting and not waiting[0].queued:
        waiting.popleft()
