"""Decides which records meet the model together, and when. Pure: time is passed in, nothing is opened.

Each partition keeps its own queues, one per shape. A batch opens with the oldest record of one partition and takes from
that partition first; when it is short it is topped up from the other partitions, oldest first. So a partition's records
enter batches in offset order, and one slow stream never makes another wait longer than `max_wait_seconds`.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stream_workers.batching.waiting import FixedWait, WaitPolicy
from stream_workers.batching.work import ReleaseReason, WorkItem

PartitionKey = tuple[str, int]
ShapeKey = bytes | str


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """When a batch is released: at `max_size` records, at `max_bytes` of payload, or `max_wait_seconds` after the poll
    that brought its first record, whichever comes first.
    """

    max_size: int
    max_bytes: int
    max_wait_seconds: float


class _ShapeTotals:
    """What is queued of one shape over all partitions."""

    __slots__ = ("count", "payload_bytes")

    def __init__(self) -> None:
        self.count = 0
        self.payload_bytes = 0


class Batcher:
    """Partition queues and the release rule. Not thread-safe: one thread owns it."""

    def __init__(self, limits: BatchLimits, wait: WaitPolicy | None = None) -> None:
        """`wait` decides instead of `limits.max_wait_seconds` how long a batch waits for more records."""
        self._limits = limits
        self._wait = wait or FixedWait(limits.max_wait_seconds)
        self._wait_seconds = limits.max_wait_seconds
        self._queues: dict[tuple[PartitionKey, ShapeKey], deque[WorkItem]] = {}
        self._totals: dict[ShapeKey, _ShapeTotals] = {}

    def __len__(self) -> int:
        """Records queued and still waiting for an outcome."""
        return sum(totals.count for totals in self._totals.values())

    def add(self, items: Iterable[WorkItem]) -> None:
        """Queue records; those of one partition in offset order."""
        queues, totals = self._queues, self._totals
        for item in items:
            request = item.request
            key = ((request.topic, request.partition), item.shape_key)
            queue = queues.get(key)
            if queue is None:
                queue = queues[key] = deque()
            queue.append(item)
            item.queued = True
            total = totals.get(item.shape_key)
            if total is None:
                total = totals[item.shape_key] = _ShapeTotals()
            total.count += 1
            total.payload_bytes += item.payload_bytes

    def next_batch(self, now: float, *, draining: bool = False) -> tuple[list[WorkItem], ReleaseReason] | None:
        """Return the records of the batch that is due at `now` and why, or None. `draining` releases what is queued.

        Of several that are due, the one whose first record is the oldest comes first.
        """
        self._wait_seconds = self._wait.wait_seconds(now)
        first: tuple[tuple[PartitionKey, ShapeKey], ReleaseReason] | None = None
        oldest = float("inf")
        for key, queue in self._heads():
            polled_at = queue[0].polled_at
            if polled_at >= oldest:
                continue
            reason = self._reason(key[1], polled_at, now, draining)
            if reason is not None:
                first, oldest = (key, reason), polled_at
        if first is None:
            return None
        return self._gather(first[0]), first[1]

    def next_release_at(self) -> float | None:
        """Monotonic seconds at which a queued batch falls due by its wait, as `next_batch` last found it to be; None
        when nothing is queued.
        """
        heads = [queue[0].polled_at for _, queue in self._heads()]
        return min(heads) + self._wait_seconds if heads else None

    def drop(self, partition: PartitionKey) -> int:
        """Forget what is queued of a partition that was taken away; returns how many records that was."""
        dropped = 0
        for key in [key for key in self._queues if key[0] == partition]:
            for item in self._queues.pop(key):
                item.queued = False
                if item.outcome is None:
                    self._subtract(item)
                    dropped += 1
        return dropped

    def discard(self, item: WorkItem) -> None:
        """Stop counting a queued record that has just been answered without the model: it never enters a batch.

        Does nothing for a record that has left its queue, be it for a batch or with its partition.
        """
        if item.queued:
            item.queued = False
            self._subtract(item)

    def _heads(self) -> Iterator[tuple[tuple[PartitionKey, ShapeKey], deque[WorkItem]]]:
        """Yield the queues that hold an unanswered record, with that record in front; forget the empty ones."""
        for key in list(self._queues):
            queue = self._queues[key]
            while queue and queue[0].outcome is not None:
                queue.popleft()
            if queue:
                yield key, queue
            else:
                del self._queues[key]

    def _reason(self, shape: ShapeKey, polled_at: float, now: float, draining: bool) -> ReleaseReason | None:
        totals = self._totals[shape]
        if totals.count >= self._limits.max_size:
            return ReleaseReason.FULL
        if totals.payload_bytes >= self._limits.max_bytes:
            return ReleaseReason.COST
        if draining:
            return ReleaseReason.DRAIN
        if now - polled_at >= self._wait_seconds:
            return ReleaseReason.TIMEOUT
        return None

    def _gather(self, first: tuple[PartitionKey, ShapeKey]) -> list[WorkItem]:
        shape = first[1]
        others = [(queue[0].polled_at, key) for key, queue in self._heads() if key[1] == shape and key != first]
        others.sort(key=lambda pair: pair[0])
        batch: list[WorkItem] = []
        room = self._limits.max_bytes
        for key in (first, *(key for _, key in others)):
            room = self._take(key, batch, room)
            if len(batch) >= self._limits.max_size or room <= 0:
                break
        # Behind the others of the same age, so that partitions take turns.
        served = self._queues.pop(first, None)
        if served:
            self._queues[first] = served
        return batch

    def _take(self, key: tuple[PartitionKey, ShapeKey], batch: list[WorkItem], room: int) -> int:
        """Move records from one queue into `batch` while they fit; returns the bytes left, 0 when one did not fit.

        The first always fits: what it costs beside its payload may be more than the limit leaves for that.
        """
        queue = self._queues[key]
        limit = self._limits.max_size
        while queue and len(batch) < limit:
            item = queue[0]
            if item.outcome is None:
                if batch and item.payload_bytes > room:
                    return 0
                room -= item.payload_bytes
                item.queued = False
                batch.append(item)
                self._subtract(item)
            queue.popleft()
        return room

    def _subtract(self, item: WorkItem) -> None:
        totals = self._totals[item.shape_key]
        totals.count -= 1
        totals.payload_bytes -= item.payload_bytes
        if totals.count == 0:
            del self._totals[item.shape_key]
