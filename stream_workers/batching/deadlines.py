"""Decides which records have run out of time. Pure: `now_ms` is wall-clock epoch milliseconds, passed in."""

import heapq
import itertools
from collections.abc import Callable, Iterable

from stream_workers.batching.work import WorkItem

MIN_SWEEP = 1024


class DeadlineWatch:
    """Every unanswered record with a deadline, soonest first. Queued or in a batch makes no difference.

    An answered record stays in the heap until its deadline or the next sweep, and a sweep comes each time the heap has
    doubled: what is held is bounded by what is unanswered, however far away the deadlines are.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, WorkItem]] = []
        self._order = itertools.count()
        self._sweep_at = MIN_SWEEP

    def __len__(self) -> int:
        """Records held."""
        return len(self._heap)

    def add(self, items: Iterable[WorkItem]) -> None:
        """Watch the records that carry a deadline."""
        for item in items:
            if item.request.deadline_ms:
                heapq.heappush(self._heap, (item.request.deadline_ms, next(self._order), item))
        if len(self._heap) >= self._sweep_at:
            self._keep(lambda item: item.outcome is None)

    def forget(self, partition: tuple[str, int]) -> None:
        """Stop watching the records of a partition that was taken away."""
        self._keep(lambda item: item.outcome is None and (item.request.topic, item.request.partition) != partition)

    def take_expired(self, now_ms: int) -> list[WorkItem]:
        """Remove and return the unanswered records whose deadline is at or before `now_ms`."""
        expired = []
        while self._heap and self._heap[0][0] <= now_ms:
            item = heapq.heappop(self._heap)[2]
            if item.outcome is None:
                expired.append(item)
        return expired

    def _keep(self, wanted: Callable[[WorkItem], bool]) -> None:
        self._heap = [entry for entry in self._heap if wanted(entry[2])]
        heapq.heapify(self._heap)
        self._sweep_at = max(MIN_SWEEP, 2 * len(self._heap))
