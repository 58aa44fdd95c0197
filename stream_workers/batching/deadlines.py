"""Decides which records have run out of time. Pure: `now_ms` is wall-clock epoch milliseconds, passed in."""

import heapq
import itertools
from collections.abc import Iterable

from stream_workers.batching.work import WorkItem


class DeadlineWatch:
    """Every unanswered record with a deadline, soonest first. Queued or in a batch makes no difference."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, WorkItem]] = []
        self._order = itertools.count()

    def add(self, items: Iterable[WorkItem]) -> None:
        """Watch the records that carry a deadline."""
        for item in items:
            if item.request.deadline_ms:
                heapq.heappush(self._heap, (item.request.deadline_ms, next(self._order), item))

    def take_expired(self, now_ms: int) -> list[WorkItem]:
        """Remove and return the unanswered records whose deadline is at or before `now_ms`."""
        expired = []
        while self._heap and self._heap[0][0] <= now_ms:
            item = heapq.heappop(self._heap)[2]
            if item.outcome is None:
                expired.append(item)
        return expired
