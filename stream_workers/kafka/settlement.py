"""Settlement: the one owner of what leaves a worker. Outcomes go in by offset order; they come out exactly once.

A thread of its own writes outcomes as they come and commits them, with their offsets, at the pace of its decider. What
it holds stays in memory until its commit is certain, so a transaction that fails is simply sent again. It never writes
for a partition that this member does not own any more, and never commits with an identity older than its last failure.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import structlog

from schemas.errors import SettlementError
from schemas.version_cuts import VersionCut
from stream_workers.batching.commit_pace import CommitPace
from stream_workers.batching.offset_ledger import Frontier, Settled
from stream_workers.batching.work import PartitionKey, WorkItem
from stream_workers.kafka.group_member import GroupSnapshot
from stream_workers.kafka.outcome_encoding import OutRecord
from stream_workers.kafka.outcome_writers import OutcomeWriter

MAX_FAILURES = 20
"""Transactions that may fail in a row, ever more slowly; then something is wrong that trying again does not cure."""
_BACKOFF_SECONDS = 0.01
_LONGEST_BACKOFF_SECONDS = 2.0
_IDLE_WAIT_SECONDS = 0.05
_RETRY_WAIT_SECONDS = 0.005

_log = structlog.get_logger("settlement")


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit that is certain: the outcomes that left with it and where their partitions stand now."""

    items: list[WorkItem]
    frontiers: dict[PartitionKey, Frontier]
    seconds: float
    produce_seconds: float = 0.0
    """Encoding the outcomes and handing them to the client, before the commit."""


class Settlement:
    """Holds the writer. `offer`, `own`, `identify`, `flush` and `take_commits` are for the worker's main thread."""

    def __init__(
        self,
        writer: OutcomeWriter,
        encode: Callable[[WorkItem | VersionCut], OutRecord | None],
        *,
        pace: CommitPace,
        hold_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`hold_seconds` is the longest life of an open transaction that cannot be committed yet."""
        self._writer = writer
        self._encode = encode
        self._pace = pace
        self._hold = hold_seconds
        self._clock = clock
        self._changed = threading.Condition()
        self._inbox: deque[Settled] = deque()
        self._owned: Mapping[PartitionKey, int] = {}
        self._snapshot: GroupSnapshot | None = None
        self._flush_wanted = self._stopping = self._soon = False
        self._idle = True
        self._failure: BaseException | None = None
        self._commits: deque[Commit] = deque()
        self._thread: threading.Thread | None = None
        # Below: the settlement thread's own.
        self._held: list[Settled] = []
        self._sent = 0
        self._opened_at: float | None = None
        self._produce_seconds = 0.0
        self._failed_serial = 0
        self._failures = 0
        self._retry_at = float("-inf")

    # -- the worker's side ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Open the writer, fencing every earlier holder of this identity, and start the thread."""
        self._writer.open()
        self._thread = threading.Thread(target=self._run, name="settlement", daemon=True)
        self._thread.start()

    def offer(self, settled: Settled, *, soon: bool = False) -> None:
        """Hand over outcomes that are free to leave; `soon`: someone waits for them. Returns at once."""
        with self._changed:
            self._inbox.append(settled)
            self._idle = False
            self._soon = self._soon or soon
            self._changed.notify_all()

    def own(self, assignments: Mapping[PartitionKey, int]) -> None:
        """Say which partitions this member owns, under which assignment. Whatever is held for others is dropped."""
        with self._changed:
            self._owned = dict(assignments)
            self._idle = False
            self._changed.notify_all()

    def identify(self, snapshot: GroupSnapshot | None) -> None:
        """Say who this member was at its last poll; None while it is nobody."""
        self._snapshot = snapshot

    def flush(self, timeout_seconds: float) -> bool:
        """Commit everything offered so far; False when that was not done in time. At once after :meth:`stop`."""
        if self._stopping:
            return self._idle
        give_up_at = self._clock() + timeout_seconds
        with self._changed:
            self._flush_wanted, self._idle = True, False
            self._changed.notify_all()
            while not self._idle and self._failure is None:
                left = give_up_at - self._clock()
                if left <= 0:
                    break
                self._changed.wait(left)
            self._flush_wanted = False
            return self._idle

    def take_commits(self) -> list[Commit]:
        """Return the commits that became certain since the last call."""
        taken = []
        while self._commits:
            taken.append(self._commits.popleft())
        return taken

    def check(self) -> None:
        """Raise what ended the thread, if anything did."""
        if self._failure is not None:
            raise self._failure

    def stop(self, timeout_seconds: float) -> bool:
        """Commit what is left within the time, then close the writer; True when nothing was left."""
        clean = self.flush(timeout_seconds)
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout_seconds)
        return clean

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._wait()
                self._step()
            self._writer.close()
        except BaseException as failure:  # noqa: BLE001 - carried to the main thread, which ends the process
            with self._changed:
                self._failure = failure
                self._changed.notify_all()

    def _wait(self) -> None:
        with self._changed:
            if not self._inbox and not self._stopping:
                self._changed.wait(self._next_wait())
            while self._inbox:
                self._held.append(self._inbox.popleft())

    def _next_wait(self) -> float:
        if self._flush_wanted:
            return _RETRY_WAIT_SECONDS if self._held else 0.0
        if self._opened_at is None:
            return _IDLE_WAIT_SECONDS
        due_in = self._pace.due_at(self._opened_at, soon=self._soon) - self._clock()
        if due_in <= 0:
            # Due and not done: there is no identity to commit with, or the last try has just failed.
            return _RETRY_WAIT_SECONDS
        return min(_IDLE_WAIT_SECONDS, due_in)

    def _step(self) -> None:
        """Write what is new, commit when it is time; if a transaction goes wrong, start over with all of it."""
        committed = False
        # Taken before the look at what is owned: a newer identity could commit for a partition that went in between.
        snapshot = self._snapshot
        try:
            self._writer.serve()
            if self._drop_disowned():
                self._start_over("a partition of the open transaction was taken away")
            self._send_new()
            committed = self._is_due() and self._commit(snapshot)
        except SettlementError as error:
            # The identity of this try: the worker may have found a better one in the meantime.
            self._failed_serial = snapshot.serial if snapshot else self._failed_serial
            self._start_over(str(error))
            self._failures += 1
            if self._failures >= MAX_FAILURES:
                raise
            self._retry_at = self._clock() + min(_LONGEST_BACKOFF_SECONDS, _BACKOFF_SECONDS * 2**self._failures)
        if committed:
            self._failures = 0
            # Outside the try: from here on a failure must never send the committed outcomes again.
            self._writer.settle_doubts()
        with self._changed:
            if not self._held and not self._inbox:
                self._idle = True
                self._changed.notify_all()

    def _send_new(self) -> None:
        if self._clock() < self._retry_at:
            return
        began = self._clock()
        while self._sent < len(self._held):
            if self._opened_at is None:
                self._writer.begin()
                self._opened_at = self._clock()
                self._produce_seconds = 0.0
            settled = self._held[self._sent]
            if settled.cuts:
                self._send(settled.cuts)
                self._writer.settle_sent()
            self._send(settled.items)
            self._sent += 1
        self._produce_seconds += self._clock() - began

    def _send(self, entries: Iterable[WorkItem | VersionCut]) -> None:
        encode, send = self._encode, self._writer.send
        for entry in entries:
            record = encode(entry)
            if record is not None:
                send(record)

    def _is_due(self) -> bool:
        if self._opened_at is None:
            return False
        due_at = self._pace.due_at(self._opened_at, soon=self._soon)
        return self._flush_wanted or self._stopping or self._clock() >= due_at

    def _commit(self, snapshot: GroupSnapshot | None) -> bool:
        """Commit the open transaction, if this member has an identity that has not failed before; True when done."""
        opened_at = self._opened_at
        if snapshot is None or snapshot.serial <= self._failed_serial:
            if opened_at is not None and self._clock() - opened_at > self._hold:
                self._start_over("no identity in the group for too long")
            return False
        started = self._clock()
        self._soon = False
        frontiers: dict[PartitionKey, Frontier] = {}
        for settled in self._held:
            frontiers.update(settled.frontiers)
        self._writer.commit(frontiers, snapshot)
        items = [item for settled in self._held for item in settled.items]
        ended = self._clock()
        self._pace.note(ended - started, ended)
        self._commits.append(Commit(items, frontiers, ended - started, self._produce_seconds))
        self._held, self._sent, self._opened_at = [], 0, None
        return True

    def _start_over(self, reason: str) -> None:
        if self._opened_at is None:
            return
        _log.warning("starting over", reason=reason, groups=len(self._held))
        self._opened_at, self._sent = None, 0
        self._writer.start_over()

    def _drop_disowned(self) -> bool:
        """Remove what is held for partitions of others; True when the open transaction holds some of it."""
        owned = self._owned
        kept: list[Settled] = []
        changed = tainted = False
        for index, settled in enumerate(self._held):
            if all(owned.get(key) == frontier.assignment for key, frontier in settled.frontiers.items()):
                kept.append(settled)
                continue
            changed, tainted = True, tainted or index < self._sent
            kept.append(_owned_part(settled, owned))
        if changed:
            self._held = kept
        return tainted


def _owned_part(settled: Settled, owned: Mapping[PartitionKey, int]) -> Settled:
    items = [
        item for item in settled.items if owned.get((item.request.topic, item.request.partition)) == item.assignment
    ]
    frontiers = {key: value for key, value in settled.frontiers.items() if owned.get(key) == value.assignment}
    return Settled(items, frontiers, [cut for cut in settled.cuts if (cut.topic, cut.partition) in frontiers])
