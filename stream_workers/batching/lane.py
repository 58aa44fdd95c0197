"""One lane: the queues of its partitions, and which records of it meet the model together. Pure.

Each partition keeps its own queues, one per shape and version; a version that cannot take a batch now holds up its own
records only. A batch opens with the oldest record of one partition and takes from
that partition first; when it is short it is topped up from the other partitions, oldest first. So a partition's records
enter batches in offset order, and one slow stream never makes another wait longer than `wait_seconds`.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from stream_workers.batching.work import PartitionKey, ReleaseReason, ServedVersion, ShapeKey, WorkItem

KindKey = tuple[ShapeKey, ServedVersion]
"""What all records of a batch have in common."""
QueueKey = tuple[PartitionKey, KindKey]
HasRoom = Callable[[ServedVersion], bool]
"""Says whether a batch of a version could be started now."""


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What a batch holds at most: `max_size` records, `max_bytes` of payload, `max_cost`; it is released with the first
    of them that is reached. Otherwise the wait decides; with `at_once` nothing waits for company.
    """

    max_size: int
    max_bytes: int
    max_cost: float = float("inf")
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Due:
    """A batch that may be released: the queue that opens it, why, and when its first record was polled."""

    key: QueueKey
    reason: ReleaseReason
    polled_at: float


class _KindTotals:
    """What is queued of one shape and version over all partitions."""

    __slots__ = ("cost", "count", "payload_bytes")

    def __init__(self) -> None:
        self.count = 0
        self.payload_bytes = 0
        self.cost = 0.0

    def take_off(self, item: WorkItem) -> None:
        item.queued = False
        self.count -= 1
        self.payload_bytes -= item.payload_bytes
        self.cost -= item.cost


class _Draft:
    """A batch in the making. The first record always fits: what it takes alone may be more than the limits leave."""

    __slots__ = ("_bytes", "_cost", "_limits", "doomed_before_ms", "items")

    def __init__(self, limits: BatchLimits, doomed_before_ms: int) -> None:
        self._limits = limits
        self._bytes, self._cost = limits.max_bytes, limits.max_cost
        self.doomed_before_ms = doomed_before_ms
        self.items: list[WorkItem] = []

    def has_room(self) -> bool:
        return len(self.items) < self._limits.max_size and self._bytes > 0 and self._cost > 0

    def take(self, item: WorkItem) -> bool:
        """Add the record if it fits; the draft is full when it does not."""
        if self.items and (item.payload_bytes > self._bytes or item.cost > self._cost):
            self._bytes = 0
            return False
        self._bytes -= item.payload_bytes
        self._cost -= item.cost
        self.items.append(item)
        return True


class Lane:
    """Partition queues of one priority. Not thread-safe: one thread owns it."""

    def __init__(self, limits: BatchLimits) -> None:
        self._limits = limits
        self.wait_seconds = 0.0
        """How long a batch waits for company now, counted from the poll of its first record; the batcher says."""
        self._queues: dict[QueueKey, deque[WorkItem]] = {}
        self._totals: dict[KindKey, _KindTotals] = {}

    def __len__(self) -> int:
        """Records queued and still waiting for an outcome."""
        return sum(totals.count for totals in self._totals.values())

    def add(self, item: WorkItem) -> None:
        """Queue a record; those of one partition in offset order."""
        request, kind = item.request, (item.shape_key, item.version)
        key = ((request.topic, request.partition), kind)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = deque()
        queue.append(item)
        item.queued = True
        total = self._totals.get(kind)
        if total is None:
            total = self._totals[kind] = _KindTotals()
        total.count += 1
        total.payload_bytes += item.payload_bytes
        total.cost += item.cost

    def versions(self) -> set[ServedVersion]:
        """The versions that queued records are to meet."""
        return {version for _, version in self._totals}

    def count_waiting(self, has_room: HasRoom) -> int:
        """Queued records of versions without room."""
        closed = {version for version in self.versions() if not has_room(version)}
        return sum(totals.count for (_, version), totals in self._totals.items() if version in closed)

    def find_due(self, now: float, has_room: HasRoom, *, draining: bool = False) -> Due | None:
        """Return the batch that is due, the one whose first record is the oldest first. `draining`: all are.

        Versions without room are passed over.
        """
        found: Due | None = None
        for key, queue in self._heads(has_room):
            polled_at = queue[0].polled_at
            if found is not None and polled_at >= found.polled_at:
                continue
            reason = self._reason(key[1], polled_at, now, draining)
            if reason is not None:
                found = Due(key, reason, polled_at)
        return found

    def gather(self, due: Due, doomed_before_ms: int = 0) -> list[WorkItem]:
        """Take the records of a due batch out of their queues.

        Records whose deadline lies before `doomed_before_ms` could not be answered in time: they leave the queue
        without entering the batch, and their deadline answers them. The batch may be empty for that.
        """
        first, kind = due.key, due.key[1]
        others = [(queue[0].polled_at, key) for key, queue in self._heads() if key[1] == kind and key != first]
        others.sort(key=lambda pair: pair[0])
        draft, totals = _Draft(self._limits, doomed_before_ms), self._totals[kind]
        for key in (first, *(key for _, key in others)):
            self._take(self._queues[key], totals, draft)
            if not draft.has_room():
                break
        if totals.count == 0:
            del self._totals[kind]
        # Behind the others of the same age, so that partitions take turns.
        served = self._queues.pop(first, None)
        if served:
            self._queues[first] = served
        return draft.items

    def next_release_at(self, has_room: HasRoom) -> float | None:
        """Monotonic seconds at which a queued batch of a version with room falls due by its wait; None without one."""
        heads = [queue[0].polled_at for _, queue in self._heads(has_room)]
        if not heads:
            return None
        return min(heads) + (0.0 if self._limits.at_once else self.wait_seconds)

    def oldest_polled_at(self) -> float | None:
        """When the record that has waited longest was polled; None when nothing is queued."""
        return min((queue[0].polled_at for _, queue in self._heads()), default=None)

    def drop(self, partition: PartitionKey) -> int:
        """Forget what is queued of a partition that was taken away; returns how many records that was."""
        dropped = 0
        for key in [key for key in self._queues if key[0] == partition]:
            for item in self._queues.pop(key):
                if item.queued:
                    self.discard(item)
                    dropped += 1
        return dropped

    def take_from(self, partition: PartitionKey, offset: int) -> list[WorkItem]:
        """Take the records of a partition at or after `offset` out of their queues, in no order between queues."""
        taken = []
        for key in [key for key in self._queues if key[0] == partition]:
            queue = self._queues[key]
            while queue and queue[-1].request.offset >= offset:
                item = queue.pop()
                if item.queued:
                    self.discard(item)
                    taken.append(item)
        return taken

    def discard(self, item: WorkItem) -> None:
        """Stop counting a queued record: it never enters a batch. It must be queued here."""
        kind = (item.shape_key, item.version)
        totals = self._totals[kind]
        totals.take_off(item)
        if totals.count == 0:
            del self._totals[kind]

    def _heads(self, has_room: HasRoom | None = None) -> Iterator[tuple[QueueKey, deque[WorkItem]]]:
        """Yield the queues that hold an unanswered record, with that record in front; forget the empty ones."""
        versions = self.versions() if has_room is not None and self._totals else set()
        closed = {version for version in versions if has_room is not None and not has_room(version)}
        for key in list(self._queues):
            if closed and key[1][1] in closed:
                continue
            queue = self._queues[key]
            while queue and not queue[0].queued:
                queue.popleft()
            if queue:
                yield key, queue
            else:
                del self._queues[key]

    def _reason(self, kind: KindKey, polled_at: float, now: float, draining: bool) -> ReleaseReason | None:
        totals, limits = self._totals[kind], self._limits
        if totals.count >= limits.max_size:
            return ReleaseReason.FULL
        if totals.payload_bytes >= limits.max_bytes or totals.cost >= limits.max_cost:
            return ReleaseReason.COST
        if draining:
            return ReleaseReason.DRAIN
        if limits.at_once:
            return ReleaseReason.URGENT
        if now - polled_at >= self.wait_seconds:
            return ReleaseReason.TIMEOUT
        return None

    @staticmethod
    def _take(queue: deque[WorkItem], totals: _KindTotals, draft: _Draft) -> None:
        """Move records from one queue into the draft while they fit."""
        while queue and draft.has_room():
            item = queue[0]
            if item.queued:
                deadline_ms = item.request.deadline_ms
                if not (deadline_ms and deadline_ms < draft.doomed_before_ms) and not draft.take(item):
                    return
                totals.take_off(item)
            queue.popleft()
