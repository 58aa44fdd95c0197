"""The main path: records from Kafka to outcomes in Kafka, a verb a line in :meth:`Worker.step`.

One thread runs it and makes every consumer call. It never runs model code and never waits for a commit: model processes
do the one, the settlement's thread the other.
"""

from collections.abc import Callable, Sequence

import structlog

from schemas.errors import StartUpTimeoutError
from stream_workers.admitting import admit
from stream_workers.batching.batcher import LEAST_URGENT, MOST_URGENT
from stream_workers.batching.in_hand import InHand
from stream_workers.batching.offset_ledger import Settled
from stream_workers.batching.work import Batch, Expired, PartitionKey, ReleaseReason, Rerun, Superseded, WorkItem
from stream_workers.caching.recall import Recalled
from stream_workers.judging import judge
from stream_workers.kafka.group_member import Polled
from stream_workers.parts import WorkerParts
from stream_workers.pipeline.contract import Residency

MAX_POLL_RECORDS = 500
IDLE_WAIT_SECONDS = 0.05
BUSY_WAIT_SECONDS = 0.002
"""The consumer cannot be waited for together with the model processes: while a batch is out it is asked this often."""
BALANCE_SECONDS = 0.02
IDENTITY_SECONDS = 0.05
REPORT_SECONDS = 0.5
_FLUSH_SECONDS = 0.1

_log = structlog.get_logger("worker")


class Worker:
    """One group member at work. Build it with :func:`stream_workers.assembly.build_worker`."""

    def __init__(self, parts: WorkerParts) -> None:
        self._p = parts
        self._clock = parts.clock
        self._has_lanes = len(parts.settings.topics.lanes) > 1
        self._in_hand = InHand()
        self._answered: list[WorkItem] = []
        self._batch_serial = 0
        self._quiet = False
        self._balanced_at = self._identified_at = self._reported_at = float("-inf")
        self._finish_by = float("inf")
        self._residency = Residency()

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Serve until told to stop, then finish what is in flight. Errors that end a member are raised."""
        self._p.versions.start()
        self.await_model(should_stop)
        if should_stop():
            return
        self._p.settlement.start()
        self._p.member.join(self._p.listener(self))
        while not should_stop():
            self.step()
        self.finish()

    def await_model(self, should_stop: Callable[[], bool]) -> None:
        """Wait until a model is loaded: no partition is taken before that. Raises StartUpTimeoutError."""
        give_up_at = self._clock() + self._p.settings.model.load_timeout_seconds + 5
        while not should_stop() and not self._p.pool.has_instances():
            now = self._clock()
            if now > give_up_at:
                raise StartUpTimeoutError("no model process became ready in time")
            self._p.pool.collect(IDLE_WAIT_SECONDS, now)
            self._follow()
            self._report(now)

    def step(self) -> None:
        """One turn of the loop."""
        now = self._clock()
        self._poll(now)
        self._expire(now)
        self._queue(self._p.cache.sweep(now))
        self._supersede(now)
        self._submit(now)
        self._collect(now)
        self._settle()
        self._acknowledge()
        self._balance(now)
        self._report(now)
        self._p.shadow.turn(now)

    def finish(self) -> None:
        """Stop taking records, finish what is in flight within the drain limit, commit it and leave."""
        parts = self._p
        self._finish_by = self._clock() + parts.settings.worker.drain_seconds
        parts.member.pause(list(parts.assignments))
        while self._clock() < self._finish_by and self._works_on(None):
            self._stay_member()
            self._finish_batches()
        while self._clock() < self._finish_by and not parts.settlement.flush(_FLUSH_SECONDS):
            self._stay_member()
            self._acknowledge()
        clean = parts.settlement.stop(max(0.5, self._finish_by - self._clock()))
        self._acknowledge(wait=True)
        parts.member.leave()
        _log.info("stopped", everything_committed=clean)

    # -- the verbs -----------------------------------------------------------------------------------------------------

    def _poll(self, now: float) -> None:
        parts = self._p
        polled = parts.member.poll(MAX_POLL_RECORDS, IDLE_WAIT_SECONDS if self._quiet else 0.0)
        self._identify(now)
        self._follow()
        now = self._clock()
        for ready in parts.versions.let_in(polled, parts.assignments, now):
            self._take_in(ready, now)
        self._quiet = not (polled.requests or self._in_hand or parts.batcher or parts.cache.holds)

    def _follow(self) -> None:
        """Meet a switch: cut the partitions, and have what is queued behind the cuts meet its new version."""
        if self._p.versions.follow(self._in_hand.find_ends):
            self.offer(self._p.ledger.settle_cuts())
            self._reported_at = float("-inf")

    def _take_in(self, polled: Polled, now: float) -> None:
        parts = self._p
        items = admit(polled, parts, now)
        if items:
            self._answered += [item for item in items if item.outcome is not None]
            recalled = parts.cache.look_up([item for item in items if item.outcome is None], now)
            parts.wait.note_arrivals(len(recalled.to_queue), now)
            self._queue(recalled)
        if polled.ends:
            self.offer(parts.ledger.settle_ends())

    def _expire(self, now: float) -> None:
        parts = self._p
        for item in parts.deadlines.take_expired(int(parts.wall_clock() * 1000)):
            if not parts.owns(item):
                continue
            parts.batcher.discard(item)
            item.outcome = Expired(item.version, parts.timings(item, now))
            self._answered.append(item)

    def _supersede(self, now: float) -> None:
        """When more waits than fits the free slots, answer what is out of date in its stream."""
        parts, batching = self._p, self._p.settings.batching
        if not parts.live_streams or len(parts.batcher) <= parts.pool.count_free_slots() * batching.max_batch_size:
            return
        for item in parts.live_streams.take_superseded():
            parts.batcher.discard(item)
            item.outcome = Superseded(item.version, parts.timings(item, now))
            self._answered.append(item)

    def _submit(self, now: float, *, draining: bool = False) -> None:
        parts = self._p
        while rerun := self._in_hand.take_rerun(lambda version: parts.pool.count_free_slots(LEAST_URGENT, version) > 0):
            wanted = [item for item in rerun.items if item.outcome is None and parts.owns(item)]
            if wanted:
                self._start(self._batch(wanted, ReleaseReason.RETRY, rerun), now)
        free_slots = parts.pool.count_free_slots
        while not draining and len(parts.batcher) and parts.breaker.allows(now):
            parts.wait.note_in_hand(self._in_hand.count_in_flight())
            due = parts.batcher.next_batch(now, free_slots, doomed_before_ms=self._doomed_before_ms())
            if due is None:
                break
            self._start(self._batch(*due), now)

    def _collect(self, now: float) -> None:
        parts = self._p
        for outcome in parts.pool.collect(self._wait_seconds(now), now):
            self._in_hand.end(outcome.batch)
            answered_at = self._clock()
            parts.service_time.note(answered_at - outcome.batch.submitted_at)
            judged = judge(outcome, parts, answered_at)
            self._answered += judged.answered
            self._in_hand.add_reruns(judged.reruns)

    def _settle(self) -> None:
        if self._answered:
            answered, self._answered = self._answered, []
            answered += self._p.cache.note_answers(answered, self._clock())
            self.offer(self._p.ledger.settle(answered))

    def _acknowledge(self, *, wait: bool = False) -> None:
        parts = self._p
        parts.settlement.check()
        for commit in parts.settlement.take_commits():
            parts.budget.note_committed(commit.items)
            parts.metrics.delivery.note_commit(commit, parts.wall_clock())
            if parts.commits_offsets:
                owned = {k: f for k, f in commit.frontiers.items() if parts.assignments.get(k) == f.assignment}
                parts.member.commit(owned, wait=wait)

    def _balance(self, now: float) -> None:
        if now - self._balanced_at < BALANCE_SECONDS:
            return
        self._balanced_at = now
        parts = self._p
        held = parts.budget.sum_held(parts.assignments, parts.ledger.pending_bytes())
        pause, resume = parts.budget.plan(held, stop=parts.versions.holds)
        if pause:
            parts.member.pause(pause)
        if resume:
            parts.member.resume(resume)
        parts.metrics.member.note_held(sum(held.values()), len(parts.budget.paused))

    def _report(self, now: float) -> None:
        residency = self._p.pool.residency()
        if now - self._reported_at >= REPORT_SECONDS or residency is not self._residency:
            self._reported_at, self._residency = now, residency
            self._p.report(self._in_hand.count_in_flight(), self._in_hand.versions() | self._p.batcher.versions())

    # -- rebalances, called by the listener from inside a poll ---------------------------------------------------------

    def drain(self, partitions: Sequence[PartitionKey] | None, give_up_at: float) -> None:
        """Wait until no batch holds records of `partitions` (None: of any), or until the time is up."""
        while self._clock() < give_up_at and self._works_on(partitions):
            self._finish_batches()

    def let_go(self, partitions: Sequence[PartitionKey], give_up_at: float) -> None:
        """Finish and commit what is in flight for partitions that are about to go."""
        parts = self._p
        give_up_at = min(give_up_at, self._finish_by)
        for partition in partitions:
            parts.batcher.drop(partition)
        self.drain(partitions, give_up_at)
        parts.settlement.identify(parts.member.snapshot())
        parts.settlement.flush(max(0.1, give_up_at - self._clock()))
        self._acknowledge(wait=True)

    # -- small parts ---------------------------------------------------------------------------------------------------

    def _finish_batches(self) -> None:
        """One turn that takes in nothing and starts nothing but second tries."""
        now = self._clock()
        self._expire(now)
        self._submit(now, draining=True)
        self._collect(now)
        self._settle()
        self._acknowledge()
        self._report(now)

    def _stay_member(self) -> None:
        """Follow the group while finishing: after a rebalance it takes no commit under the old generation.

        What the poll still brings is not admitted, so it is not committed: it is left for the next owner.
        """
        self._p.member.poll(MAX_POLL_RECORDS, 0.0)
        self._identify(self._clock())

    def _identify(self, now: float) -> None:
        if now - self._identified_at >= IDENTITY_SECONDS:
            self._identified_at = now
            self._p.settlement.identify(self._p.member.snapshot())

    def _start(self, batch: Batch, now: float) -> None:
        batch.submitted_at = now
        self._in_hand.start(batch)
        self._p.pool.submit(batch, now)
        self._p.versions.note_started(batch.version, now)
        self._p.metrics.batching.note_batch(batch, now)

    def _queue(self, recalled: Recalled) -> None:
        self._answered += recalled.answered
        self._p.batcher.add(recalled.to_queue)
        if self._p.live_streams is not None:
            self._p.live_streams.add(recalled.to_queue)

    def _doomed_before_ms(self) -> int:
        """Records with an earlier deadline come too late; 0 while no batch is out: then even those are tried."""
        if not self._in_hand.count_in_flight() or not len(self._p.deadlines):
            return 0
        return int((self._p.wall_clock() + self._p.service_time.expected_seconds) * 1000)

    def offer(self, settled: Settled) -> None:
        """Hand what is settled to the settlement, if anything is."""
        if settled:
            parts = self._p
            parts.budget.note_settling(settled.items)
            urgent = self._has_lanes and any(item.priority == MOST_URGENT for item in settled.items)
            parts.settlement.offer(settled, soon=urgent or parts.pool.has_idle_instance())

    def _works_on(self, partitions: Sequence[PartitionKey] | None) -> bool:
        return bool(self._in_hand) if partitions is None else self._in_hand.holds_any(partitions)

    def _wait_seconds(self, now: float) -> float:
        """How long to wait for the model processes; not at all when the loop is about to wait in the poll."""
        if self._quiet:
            return 0.0
        can_start = not self._p.breaker.is_open
        release_at = self._p.batcher.next_release_at(self._p.pool.count_free_slots) if can_start else None
        if release_at is None:
            return BUSY_WAIT_SECONDS
        return min(BUSY_WAIT_SECONDS, max(0.0, release_at - now))

    def _batch(self, items: Sequence[WorkItem], reason: ReleaseReason, rerun: Rerun | None = None) -> Batch:
        self._batch_serial += 1
        batch = Batch(self._batch_serial, items, reason, items[0].version, priority=items[0].priority)
        if rerun is not None:
            batch.version, batch.mode = rerun.version, rerun.mode
        return batch
