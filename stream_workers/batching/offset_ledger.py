"""The book of what was polled and what may be committed. Pure.

Outcomes arrive in any order and leave in offset order per partition; the frontier of a partition is the first offset
without an outcome, and nothing beyond it is ever committed. No book of single offsets is kept, because compaction and
transaction markers leave holes; a partition is forgotten when it is taken away, and what arrives late for an earlier
assignment is fenced by its number.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from schemas.records import Stage
from schemas.version_cuts import VersionCut
from stream_workers.batching.work import Answer, PartitionKey, Rejected, WorkItem

UNMET_STAGES = (Stage.DECODE, Stage.VALIDATE)
"""Where a record is refused before a model has seen it."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """Where a partition may be committed to: the next offset to read, under one assignment."""

    assignment: int
    offset: int
    epoch: int = 0
    """Of the decision that the last record below the offset met: no record from there on may meet an older one."""


@dataclass(slots=True)
class Settled:
    """Outcomes that are free to leave, in offset order per partition, and the frontiers that they bring about.

    `cuts` go before the outcomes, or with them; each has the frontier of its partition beside it.
    """

    items: list[WorkItem] = field(default_factory=list)
    frontiers: dict[PartitionKey, Frontier] = field(default_factory=dict)
    cuts: list[VersionCut] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.items or self.frontiers)


class _Book:
    __slots__ = (
        "assignment",
        "cuts",
        "end",
        "epoch",
        "frontier",
        "last_admitted",
        "pending",
        "pending_bytes",
        "start",
    )

    def __init__(self, assignment: int, start: int, epoch: int) -> None:
        self.assignment = assignment
        self.start = start
        self.epoch = epoch
        self.cuts: list[VersionCut] = []
        self.pending: deque[WorkItem] = deque()
        self.pending_bytes = 0
        self.last_admitted = -1
        self.frontier = -1
        self.end = -1


class OffsetLedger:
    """One book per assigned partition. Not thread-safe: one thread owns it."""

    def __init__(self) -> None:
        self._books: dict[PartitionKey, _Book] = {}
        self.fenced = 0
        """Outcomes that came for a partition that is gone, or from before it came back."""

    def open(self, partition: PartitionKey, assignment: int, start: int = -1, epoch: int = 0) -> None:
        """Begin a partition's book. `assignment` must differ each time the same partition is given.

        `start` is its committed offset, -1 where there is none; `epoch` the one that is committed with it.
        """
        self._books[partition] = _Book(assignment, start, epoch)

    def close(self, partition: PartitionKey) -> None:
        """Forget a partition; its late outcomes are fenced from now on."""
        self._books.pop(partition, None)

    def partitions(self) -> Iterable[PartitionKey]:
        """The partitions with an open book."""
        return self._books.keys()

    def assignment(self, partition: PartitionKey) -> int | None:
        """The assignment number of an open partition."""
        book = self._books.get(partition)
        return book.assignment if book else None

    def admit(self, items: Iterable[WorkItem]) -> list[WorkItem]:
        """Enter polled records, rising by offset within each partition; returns those that were entered.

        A record of a partition without a book, or at or below an offset entered before, is left out.
        """
        admitted = []
        for item in items:
            request = item.request
            book = self._books.get((request.topic, request.partition))
            if book is None or book.assignment != item.assignment or request.offset <= book.last_admitted:
                self.fenced += 1
                continue
            book.last_admitted = request.offset
            book.pending.append(item)
            book.pending_bytes += item.payload_bytes
            admitted.append(item)
        return admitted

    def note_end(self, partition: PartitionKey, offset: int) -> None:
        """Remember that nothing readable lies below `offset`: control records may take up the last offsets."""
        book = self._books.get(partition)
        if book and offset > book.end:
            book.end = offset

    def settle(self, items: Sequence[WorkItem]) -> Settled:
        """Take note of records that have their `outcome` now; returns everything that this sets free."""
        touched: dict[PartitionKey, _Book] = {}
        for item in items:
            request = item.request
            key = (request.topic, request.partition)
            if key in touched:
                continue
            book = self._books.get(key)
            if book is None or book.assignment != item.assignment:
                self.fenced += 1
                continue
            touched[key] = book
        settled = Settled()
        for key, book in touched.items():
            self._advance(key, book, settled)
        return settled

    def find_cut(self, partition: PartitionKey, beyond: int = 0) -> int:
        """Return the lowest offset at which a partition can be cut now: nothing from there on has met a model.

        Outcomes that need no model do not bind: they can still name another version. `beyond` is the offset after
        the last record that is with a model.
        """
        book = self._books[partition]
        lowest = max(book.start, book.frontier, beyond, 0)
        for item in reversed(book.pending):
            if item.request.offset < lowest:
                break
            if met_model(item):
                return item.request.offset + 1
        return lowest

    def epoch_below(self, partition: PartitionKey, offset: int) -> int:
        """Return the highest epoch that records of an open partition below `offset` met, as far as this one knows."""
        book = self._books[partition]
        epoch = book.epoch
        for item in book.pending:
            if item.request.offset >= offset:
                break
            epoch = max(epoch, item.version.epoch)
        return epoch

    def pending_from(self, partition: PartitionKey, offset: int) -> list[WorkItem]:
        """Return the records of an open partition at or after `offset` that are not settled, in offset order."""
        return [item for item in self._books[partition].pending if item.request.offset >= offset]

    def add_cut(self, partition: PartitionKey, cut: VersionCut) -> None:
        """Have a cut leave before every outcome that is not settled yet. Only for an open partition."""
        self._books[partition].cuts.append(cut)

    def settle_cuts(self) -> Settled:
        """Return the cuts that need not wait for outcomes: those of partitions with a known frontier.

        A cut leaves beside the committed offset of its partition, so that the broker refuses it from a former owner.
        """
        settled = Settled()
        for key, book in self._books.items():
            if book.cuts and max(book.frontier, book.start) >= 0:
                self._release(key, book, settled)
        return settled

    def settle_ends(self) -> Settled:
        """Advance partitions whose end lies beyond their last record, so that a read-out partition shows no lag."""
        settled = Settled()
        for key, book in self._books.items():
            if not book.pending and book.end > book.frontier:
                self._advance(key, book, settled)
        return settled

    def count_pending(self, partition: PartitionKey) -> int:
        """Records of a partition that have not been settled."""
        book = self._books.get(partition)
        return len(book.pending) if book else 0

    def pending_bytes(self) -> dict[PartitionKey, int]:
        """Payload bytes that each open partition holds."""
        return {key: book.pending_bytes for key, book in self._books.items()}

    @staticmethod
    def _advance(key: PartitionKey, book: _Book, settled: Settled) -> None:
        pending, before = book.pending, book.frontier
        item: WorkItem | None = None
        while pending and pending[0].outcome is not None:
            item = pending.popleft()
            book.pending_bytes -= item.payload_bytes
            book.frontier = item.request.offset + 1
            settled.items.append(item)
        if item is not None:
            book.epoch = max(book.epoch, item.version.epoch)
        if not pending and book.end > book.frontier:
            book.frontier = book.end
        if book.frontier > before:
            OffsetLedger._release(key, book, settled)

    @staticmethod
    def _release(key: PartitionKey, book: _Book, settled: Settled) -> None:
        offset = book.frontier if book.frontier >= 0 else book.start
        settled.frontiers[key] = Frontier(book.assignment, offset, book.epoch)
        if book.cuts:
            settled.cuts += book.cuts
            book.cuts = []


def met_model(item: WorkItem) -> bool:
    """True when a record's outcome was made by a model."""
    outcome = item.outcome
    if type(outcome) is Rejected:
        return outcome.error.stage not in UNMET_STAGES
    return type(outcome) is Answer
