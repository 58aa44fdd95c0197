"""A worker in virtual time: the real batcher and wait policy over arrivals and service times that are given. Pure.

What is simulated besides: model instances that take their batches in turn, the slots that permit a batch to be
submitted, outcomes that leave in offset order per partition, and the commit that makes them visible. What is not:
polls, the member's own work and Kafka, which the profiler does not measure either.
"""

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schemas.records import BYTES, Request
from stream_workers.batching.batcher import Batcher
from stream_workers.batching.lane import BatchLimits
from stream_workers.batching.waiting import FixedWait, WaitPolicy
from stream_workers.batching.work import WorkItem

PARTITIONS = 8
_TICK_SECONDS = 1e-9
"""Added to a time at which something falls due, so that rounding cannot make it not quite due."""

ServiceTimes = Callable[[int], float]
"""Seconds that an instance takes for a batch of so many records; may draw at random."""


@dataclass(frozen=True, slots=True)
class WorkerShape:
    """The settings that a simulated worker runs under."""

    instances: int
    slots: int
    max_batch_size: int
    max_wait_seconds: float = 0.0
    """Not used when the run is given a wait policy."""


@dataclass(frozen=True, slots=True)
class Run:
    """What became of the records of one run, by their order of arrival."""

    arrived_at: Sequence[float]
    answered_at: Sequence[float]
    batch_sizes: Sequence[int]

    @property
    def records_per_second(self) -> float:
        """From the first arrival to the last answer."""
        return len(self.arrived_at) / (max(self.answered_at) - self.arrived_at[0])


class _Instance:
    """One model process: the batch that runs and those ready behind it."""

    __slots__ = ("batches",)

    def __init__(self) -> None:
        self.batches: deque[list[WorkItem]] = deque()


class _Simulation:
    def __init__(
        self, arrivals: Sequence[float], shape: WorkerShape, service: ServiceTimes, wait: WaitPolicy | None
    ) -> None:
        self._arrivals = arrivals
        self._shape = shape
        self._service = service
        self._wait = wait or FixedWait(shape.max_wait_seconds)
        self._batcher = Batcher(BatchLimits(shape.max_batch_size, len(arrivals) + 1), self._wait)
        self._instances = [_Instance() for _ in range(shape.instances)]
        self._ends: list[tuple[float, int, float]] = []
        """A heap of (when the running batch ends, on which instance, when it began)."""
        self._arrived = 0
        self._in_hand = 0
        self.answered_at = [0.0] * len(arrivals)
        self.batch_sizes: list[int] = []

    def run(self) -> None:
        left = len(self._arrivals)
        while left:
            now = self._next_event()
            self._admit(now)
            while self._ends and self._ends[0][0] <= now:
                left -= self._finish()
            self._submit(now)

    def _next_event(self) -> float:
        """The next time at which anything can change: a batch ends, fills up, or has waited long enough."""
        times = [self._ends[0][0]] if self._ends else []
        queued = len(self._batcher)
        if self._in_hand < self._shape.slots * self._shape.instances:
            fills_at = self._arrived if not queued else self._arrived + self._shape.max_batch_size - queued - 1
            if fills_at < len(self._arrivals):
                times.append(self._arrivals[fills_at])
            if queued and (release_at := self._batcher.next_release_at()) is not None:
                times.append(release_at + _TICK_SECONDS)
        return min(time for time in times if time < float("inf"))

    def _admit(self, now: float) -> None:
        first = self._arrived
        while self._arrived < len(self._arrivals) and self._arrivals[self._arrived] <= now:
            self._batcher.add([_record(self._arrived, self._arrivals[self._arrived])])
            self._arrived += 1
        if self._arrived > first:
            self._wait.note_arrivals(self._arrived - first, now)

    def _finish(self) -> int:
        end, number, began = heapq.heappop(self._ends)
        instance = self._instances[number]
        items = instance.batches.popleft()
        self._in_hand -= 1
        self._wait.note_service(len(items), end - began)
        for item in items:
            self.answered_at[item.request.offset] = end
        if instance.batches:
            self._begin(number, end)
        return len(items)

    def _submit(self, now: float) -> None:
        while self._in_hand < self._shape.slots * self._shape.instances and len(self._batcher):
            self._wait.note_in_hand(self._in_hand)
            due = self._batcher.next_batch(now)
            if due is None:
                return
            number = min(range(len(self._instances)), key=lambda one: len(self._instances[one].batches))
            self._instances[number].batches.append(due[0])
            self._in_hand += 1
            self.batch_sizes.append(len(due[0]))
            if len(self._instances[number].batches) == 1:
                self._begin(number, now)

    def _begin(self, number: int, now: float) -> None:
        size = len(self._instances[number].batches[0])
        heapq.heappush(self._ends, (now + self._service(size), number, now))


def simulate(
    arrivals: Sequence[float], shape: WorkerShape, service: ServiceTimes, wait: WaitPolicy | None = None
) -> Run:
    """Run a worker over arrivals that rise (seconds); `wait` decides instead of `shape.max_wait_seconds`."""
    simulation = _Simulation(arrivals, shape, service, wait)
    simulation.run()
    return Run(arrivals, simulation.answered_at, simulation.batch_sizes)


def visible_at(answered_at: Sequence[float], commit_interval_seconds: float) -> list[float]:
    """Return when each outcome can be read: answers leave in offset order per partition, once per commit interval.

    Record `i` lies in partition `i % PARTITIONS`. An interval begins with the first outcome after the last commit.
    """
    released = list(answered_at)
    for index in range(PARTITIONS, len(released)):
        released[index] = max(released[index], released[index - PARTITIONS])
    visible = [0.0] * len(released)
    commit_at = float("-inf")
    for index in sorted(range(len(released)), key=released.__getitem__):
        if released[index] > commit_at:
            commit_at = released[index] + commit_interval_seconds
        visible[index] = commit_at
    return visible


def _record(number: int, arrived_at: float) -> WorkItem:
    request = Request(
        id="",
        topic="t",
        partition=number % PARTITIONS,
        offset=number,
        timestamp_ms=0,
        key=None,
        payload=None,
        content_type=BYTES,
    )
    return WorkItem(request, 1, arrived_at, BYTES, 1)
