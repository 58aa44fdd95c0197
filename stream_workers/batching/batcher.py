"""Decides which lane releases a batch next. Pure: time is passed in, nothing is opened.

Lanes are served by priority, 0 first. A lane that has something due and is passed over for more urgent ones goes first
after `ceil(1 / share) - 1` of their batches; of several such lanes the one that was passed over most. So while it has
work, each of n lanes gets at least one of every `ceil(1 / share) + n - 2` batches.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from stream_workers.batching.lane import BatchLimits, Due, Lane
from stream_workers.batching.waiting import WaitPolicy
from stream_workers.batching.work import PartitionKey, ReleaseReason, ServedVersion, WorkItem

CountFreeSlots = Callable[[int, ServedVersion], int]
"""Batches of a priority and a version that could be started now."""

MOST_URGENT, LEAST_URGENT = 0, 9
"""The range of priorities."""


def most_passed_over(share: float) -> int:
    """Batches of more urgent lanes that may go before one that waits, so that its lane keeps this share of them."""
    return math.ceil(1 / share) - 1


def _always_one(priority: int, version: ServedVersion) -> int:
    del priority, version
    return 1


class Batcher:
    """The lanes and the release rule. Not thread-safe: one thread owns it."""

    def __init__(self, lanes: BatchLimits | Mapping[int, BatchLimits], wait: WaitPolicy, share: float = 0.1) -> None:
        """`lanes` holds the limits of each lane by priority, or those of the only lane.

        `wait` decides how long a batch waits for more records.
        """
        self._wait = wait
        limits = {MOST_URGENT: lanes} if isinstance(lanes, BatchLimits) else lanes
        self._lanes = {priority: Lane(limits[priority]) for priority in sorted(limits)}
        self._most_passed_over = most_passed_over(share)
        self._passed_over = dict.fromkeys(self._lanes, 0)

    def __len__(self) -> int:
        """Records queued and still waiting for an outcome."""
        return sum(map(len, self._lanes.values()))

    def add(self, items: Iterable[WorkItem]) -> None:
        """Queue records in the lanes of their priorities; those of one partition in offset order."""
        for item in items:
            self._lanes[item.priority].add(item)

    def next_batch(
        self, now: float, free_slots: CountFreeSlots = _always_one, *, draining: bool = False, doomed_before_ms: int = 0
    ) -> tuple[list[WorkItem], ReleaseReason] | None:
        """Return the records of the batch that is due at `now` and why, or None. They meet one version.

        `free_slots` says where there is room. `draining` releases what is queued. Records whose deadline lies before
        `doomed_before_ms` (epoch) are left to it.
        """
        if not any(free_slots(MOST_URGENT, version) for version in self.versions()):
            return None
        wait_seconds = self._wait.wait_seconds(now)
        for lane in self._lanes.values():
            lane.wait_seconds = wait_seconds
        while (chosen := self._choose(now, free_slots, draining)) is not None:
            priority, due = chosen
            items = self._lanes[priority].gather(due, doomed_before_ms)
            if items:
                return items, due.reason
        return None

    def next_release_at(self, free_slots: CountFreeSlots = _always_one) -> float | None:
        """Monotonic seconds at which a queued batch with room falls due by its wait, as `next_batch` last found it to
        be; None when there is none.
        """
        found = (lane.next_release_at(partial(_has_room, free_slots, LEAST_URGENT)) for lane in self._lanes.values())
        return min((at for at in found if at is not None), default=None)

    def versions(self) -> set[ServedVersion]:
        """The versions that queued records are to meet."""
        return set().union(*(lane.versions() for lane in self._lanes.values()))

    def count_waiting(self, has_room: Callable[[ServedVersion], bool]) -> int:
        """Queued records of versions without room."""
        return sum(lane.count_waiting(has_room) for lane in self._lanes.values())

    def oldest_polled_at(self) -> dict[int, float]:
        """By priority: when the record that has waited longest was polled. Lanes with nothing queued are left out."""
        found = {priority: lane.oldest_polled_at() for priority, lane in self._lanes.items()}
        return {priority: at for priority, at in found.items() if at is not None}

    def take_from(self, partition: PartitionKey, offset: int) -> list[WorkItem]:
        """Take the records of a partition at or after `offset` out of their queues, in offset order."""
        taken = [item for lane in self._lanes.values() for item in lane.take_from(partition, offset)]
        return sorted(taken, key=lambda item: item.request.offset)

    def drop(self, partition: PartitionKey) -> int:
        """Forget what is queued of a partition that was taken away; returns how many records that was."""
        return sum(lane.drop(partition) for lane in self._lanes.values())

    def discard(self, item: WorkItem) -> None:
        """Stop counting a queued record that has just been answered without the model: it never enters a batch.

        Does nothing for a record that has left its queue, be it for a batch or with its partition.
        """
        if item.queued:
            self._lanes[item.priority].discard(item)

    def _choose(self, now: float, free_slots: CountFreeSlots, draining: bool) -> tuple[int, Due] | None:
        due: dict[int, Due] = {}
        kept_waiting: list[int] = []
        urgent_room = partial(_has_room, free_slots, MOST_URGENT)
        for priority, lane in self._lanes.items():
            found = lane.find_due(now, partial(_has_room, free_slots, priority), draining=draining)
            if found is not None:
                due[priority] = found
            elif priority != MOST_URGENT and lane.find_due(now, urgent_room, draining=draining) is not None:
                # There is room for urgent batches only: passed over all the same.
                kept_waiting.append(priority)
        if not due:
            return None
        chosen = min(due)
        longest = max((*due, *kept_waiting), key=lambda priority: (self._passed_over[priority], -priority))
        if longest in due and self._passed_over[longest] >= self._most_passed_over:
            chosen = longest
        for priority in (*due, *kept_waiting):
            if priority > chosen:
                self._passed_over[priority] += 1
        self._passed_over[chosen] = 0
        return chosen, due[chosen]


def _has_room(free_slots: CountFreeSlots, priority: int, version: ServedVersion) -> bool:
    return free_slots(priority, version) > 0
