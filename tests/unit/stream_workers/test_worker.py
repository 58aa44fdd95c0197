"""The main path against fakes: every record gets one outcome, in order, whatever happens on the way."""

import pytest
from prometheus_client import CollectorRegistry

from schemas.errors import FencedError
from schemas.settings import BatchingSettings, LimitSettings, Settings, TopicSettings, WorkerSettings
from stream_workers.assembly import lane_limits
from stream_workers.batching.batcher import Batcher
from stream_workers.batching.deadlines import DeadlineWatch
from stream_workers.batching.failure_policy import Breaker
from stream_workers.batching.intake import Intake
from stream_workers.batching.intake_budget import IntakeBudget
from stream_workers.batching.live_streams import LiveStreams
from stream_workers.batching.offset_ledger import OffsetLedger
from stream_workers.batching.service_time import ServiceTime
from stream_workers.batching.waiting import FixedWait
from stream_workers.batching.work import Answer, Expired, Rejected, ReleaseReason, Skipped, Superseded
from stream_workers.kafka.group_member import UnreadableBatch
from stream_workers.metrics import WorkerMetrics
from stream_workers.parts import WorkerParts
from stream_workers.rebalancing import PartitionLifecycle
from stream_workers.worker import Worker
from tests.fakes.fake_group_member import FakeGroupMember
from tests.fakes.fake_model_pool import FakeModelPool
from tests.fakes.fake_settlement import FakeSettlement
from tests.unit.stream_workers.builders import request

P0, P1 = ("requests", 0), ("requests", 1)


class Rig:
    """A worker whose world is in memory and whose clock stands until it is moved."""

    def __init__(
        self,
        *,
        max_batch_size: int = 4,
        queue_bytes: int = 1 << 20,
        at_least_once: bool = False,
        overload: str = "queue",
        topics: TopicSettings | None = None,
    ) -> None:
        self.now = 100.0
        self.member, self.settlement, self.pool = FakeGroupMember(), FakeSettlement(), FakeModelPool()
        settings = Settings(
            topics=topics or TopicSettings(),
            worker=WorkerSettings(queue_bytes=1 << 20),
            limits=LimitSettings(payload_bytes=1 << 10),
            batching=BatchingSettings(max_batch_size=max_batch_size, max_wait_ms=10),
        )
        wait = FixedWait(0.01)
        self.parts = WorkerParts(
            settings=settings,
            member=self.member,
            settlement=self.settlement,
            pool=self.pool,
            metrics=WorkerMetrics(CollectorRegistry()),
            intake=Intake(settings.limits, settings.topics.priorities),
            batcher=Batcher(lane_limits(settings), wait, settings.batching.lowest_share),
            wait=wait,
            ledger=OffsetLedger(),
            deadlines=DeadlineWatch(),
            breaker=Breaker(),
            budget=IntakeBudget(queue_bytes),
            service_time=ServiceTime(),
            live_streams=LiveStreams() if overload == "drop_oldest" else None,
            clock=self.clock,
            wall_clock=lambda: self.now,
            report=lambda _: None,
            batch_span=lambda *_: (3, 5),
            listener=lambda worker: PartitionLifecycle(self.parts, worker),
            commits_offsets=at_least_once,
        )
        self.worker = Worker(self.parts)
        self.member.join(PartitionLifecycle(self.parts, self.worker))

    def clock(self) -> float:
        # Each look takes a little time, so that a bounded wait in the code under test ends.
        self.now += 0.0001
        return self.now

    def turn(self, times: int = 1, seconds: float = 0.02) -> None:
        for _ in range(times):
            self.worker.step()
            self.now += seconds

    def kinds(self) -> list[tuple[int, int, type]]:
        return [(i.request.partition, i.request.offset, type(i.outcome)) for i in self.settlement.outcomes]


def fill(rig: Rig, partition: int, count: int, **varied: object) -> None:
    log = rig.member.log.setdefault(("requests", partition), [])
    log += [request(n, partition, **varied) for n in range(len(log), len(log) + count)]  # type: ignore[arg-type]


def test_every_record_is_answered_once_in_offset_order() -> None:
    rig = Rig()
    fill(rig, 0, 10)
    fill(rig, 1, 3)
    rig.member.assign(P0, P1)
    rig.turn(10)
    assert [k for k in rig.kinds() if k[0] == 0] == [(0, n, Answer) for n in range(10)]
    assert [k for k in rig.kinds() if k[0] == 1] == [(1, n, Answer) for n in range(3)]
    assert rig.settlement.committed == {P0: 10, P1: 3}


def test_batches_are_full_when_more_is_waiting_than_one_poll_would_bring() -> None:
    rig = Rig(max_batch_size=64)
    fill(rig, 0, 640)
    rig.member.assign(P0)
    rig.turn(12)
    assert [len(batch.items) for batch in rig.pool.batches] == [64] * 10


def test_a_tombstone_moves_the_offset_and_is_answered_by_nothing() -> None:
    rig = Rig()
    fill(rig, 0, 1, payload=None)
    fill(rig, 0, 1)
    rig.member.assign(P0)
    rig.turn(3)
    assert rig.kinds() == [(0, 0, Skipped), (0, 1, Answer)]
    assert rig.settlement.committed == {P0: 2}


def test_one_refused_record_leaves_its_neighbours_alone() -> None:
    rig = Rig()
    rig.pool.refuses = lambda one: one.request.offset == 2
    fill(rig, 0, 4)
    rig.member.assign(P0)
    rig.turn(3)
    assert [k[2] for k in rig.kinds()] == [Answer, Answer, Rejected, Answer]


def test_a_record_that_makes_the_batch_raise_is_found_and_the_order_kept() -> None:
    rig = Rig()
    rig.pool.raises = lambda one: one.request.offset == 1
    fill(rig, 0, 8)
    rig.member.assign(P0)
    rig.turn(12)
    assert rig.kinds() == [(0, n, Rejected if n == 1 else Answer) for n in range(8)]
    assert rig.settlement.outcomes[1].outcome.error.code == "model_failure"  # type: ignore[union-attr]


def test_a_record_that_raises_only_in_company_is_answered() -> None:
    rig = Rig()
    fill(rig, 0, 4)
    rig.pool.raises = lambda one: one.request.offset == 1 and len(rig.pool.batches[-1].items) > 1
    rig.member.assign(P0)
    rig.turn(12)
    assert [k[2] for k in rig.kinds()] == [Answer] * 4


def test_a_record_that_kills_the_process_is_found_after_two_deaths() -> None:
    rig = Rig()
    rig.pool.kills = lambda one: one.request.offset == 2
    fill(rig, 0, 8)
    rig.member.assign(P0)
    rig.turn(12)
    assert rig.kinds() == [(0, n, Rejected if n == 2 else Answer) for n in range(8)]
    assert rig.settlement.outcomes[2].outcome.error.code == "model_crashed"  # type: ignore[union-attr]
    assert rig.pool.deaths == 2


def test_a_deadline_is_answered_while_the_model_is_busy_and_never_reaches_it() -> None:
    rig = Rig(max_batch_size=2)
    fill(rig, 0, 6, deadline_ms=101_000)
    rig.pool.holds = True
    rig.member.assign(P0)
    rig.turn()
    submitted = sum(len(batch.items) for batch in rig.pool.batches)
    rig.now = 101.05
    rig.turn()
    assert rig.kinds() == [(0, n, Expired) for n in range(6)]
    assert all(one.outcome.timings.queue_ms >= 0 for one in rig.settlement.outcomes)  # type: ignore[union-attr]
    rig.pool.holds = False
    rig.turn(5)
    assert sum(len(batch.items) for batch in rig.pool.batches) == submitted == 4
    assert len(rig.settlement.outcomes) == 6


def test_a_revoked_partition_finishes_what_is_in_flight_and_drops_what_is_queued() -> None:
    rig = Rig(max_batch_size=2)
    fill(rig, 0, 10)
    rig.pool.holds = True
    rig.member.assign(P0)
    rig.turn()
    rig.pool.holds = False
    rig.member.revoke(P0)
    assert rig.settlement.flushes == 1
    assert rig.settlement.committed == {P0: 4}
    assert rig.settlement.owned == {}
    rig.turn(3)
    assert len(rig.settlement.outcomes) == 4
    rig.member.committed = rig.settlement.committed
    rig.member.assign(P0)
    rig.turn(10)
    assert rig.kinds() == [(0, n, Answer) for n in range(10)]


def test_a_deadline_that_passes_in_the_drain_of_a_revoked_partition_costs_nothing_but_its_record() -> None:
    rig = Rig(max_batch_size=2)
    fill(rig, 0, 6, deadline_ms=101_000)
    fill(rig, 1, 2)
    rig.pool.holds = True
    rig.member.assign(P0, P1)
    rig.turn()
    rig.now = 100.999
    rig.member.revoke(P0)
    rig.pool.holds = False
    rig.turn(3)
    assert [k for k in rig.kinds() if k[0] == 1] == [(1, 0, Answer), (1, 1, Answer)]
    assert len(rig.parts.batcher) == 0


def test_a_drain_that_takes_too_long_lets_go_and_fences_what_comes_late() -> None:
    rig = Rig(max_batch_size=2)
    fill(rig, 0, 2)
    rig.pool.holds = True
    rig.member.assign(P0)
    rig.turn()
    rig.member.revoke(P0)
    rig.pool.holds = False
    rig.turn(3)
    assert rig.settlement.outcomes == []
    assert rig.parts.ledger.fenced == 2


def test_a_lost_partition_is_not_written_for_any_more() -> None:
    rig = Rig(max_batch_size=2)
    fill(rig, 0, 2)
    fill(rig, 1, 2)
    rig.pool.holds = True
    rig.member.assign(P0, P1)
    rig.turn()
    rig.member.lose(P0)
    rig.pool.holds = False
    rig.turn(3)
    assert {k[0] for k in rig.kinds()} == {1}
    assert P0 not in rig.settlement.committed


def test_a_member_pauses_when_its_share_is_full_and_resumes_when_there_is_room() -> None:
    rig = Rig(queue_bytes=8192)
    fill(rig, 0, 40)
    rig.pool.holds = True
    rig.member.assign(P0)
    rig.turn(2)
    assert rig.member.paused == {P0}
    rig.pool.holds = False
    rig.turn(20)
    assert rig.member.paused == set()
    assert len(rig.settlement.outcomes) == 40


def test_uncommitted_outcomes_count_as_held() -> None:
    rig = Rig(queue_bytes=8192)
    rig.settlement.auto = False
    fill(rig, 0, 40)
    rig.member.assign(P0)
    rig.turn(20)
    assert rig.member.paused == {P0}
    rig.settlement.auto = True
    rig.settlement.commit()
    rig.turn(2)
    assert rig.member.paused == set()


def test_what_went_with_a_lost_partition_does_not_count_as_held_for_ever() -> None:
    rig = Rig(queue_bytes=8192)
    rig.settlement.auto = False
    fill(rig, 0, 40)
    rig.member.assign(P0)
    rig.turn(20)
    rig.member.lose(P0)
    rig.settlement.auto = True
    rig.member.assign(P1)
    fill(rig, 1, 8)
    rig.turn(20)
    assert P1 not in rig.member.paused
    assert [k for k in rig.kinds() if k[0] == 1] == [(1, n, Answer) for n in range(8)]


def test_an_unreadable_batch_is_stepped_over_with_a_dead_letter_for_each_record() -> None:
    rig = Rig()
    fill(rig, 0, 3)
    rig.member.assign(P0)
    rig.turn(3)
    rig.member.unreadable = [UnreadableBatch(P0, 3, "bad compression")]
    rig.turn(2)
    assert rig.member.sought == [(P0, 6)]
    assert rig.kinds()[3:] == [(0, n, Rejected) for n in (3, 4, 5)]
    assert "offsets 3 to 5" in rig.settlement.outcomes[3].outcome.error.message  # type: ignore[union-attr]
    assert rig.settlement.committed == {P0: 6}


def test_records_that_retention_deleted_are_counted_once() -> None:
    rig = Rig()
    rig.member.assign(P0, P1)
    rig.member.records_lost = {P0: 3, P1: 4}
    rig.turn(3)
    assert rig.parts.metrics.delivery.records_lost._value.get() == 7


def test_at_least_once_commits_through_the_member_after_the_outcomes_are_safe() -> None:
    rig = Rig(at_least_once=True)
    rig.settlement.auto = False
    fill(rig, 0, 4)
    rig.member.assign(P0)
    rig.turn(3)
    assert rig.member.committed == {}
    rig.settlement.commit()
    rig.turn()
    assert rig.member.committed == {P0: 4}


def test_the_breaker_holds_new_batches_back_but_loses_none() -> None:
    rig = Rig(max_batch_size=4)
    rig.pool.raises = lambda one: one.request.offset < 60
    fill(rig, 0, 80)
    rig.member.assign(P0)
    rig.turn(400, seconds=0.05)
    assert [k[2] for k in rig.kinds()] == [Rejected] * 60 + [Answer] * 20


def test_finishing_answers_what_is_in_flight_commits_and_leaves() -> None:
    rig = Rig(max_batch_size=2)
    fill(rig, 0, 10)
    rig.member.assign(P0)
    rig.pool.holds = True
    rig.turn()
    rig.pool.holds = False
    rig.worker.finish()
    assert rig.settlement.committed == {P0: 4}
    assert rig.member.left


def test_a_member_that_finishes_still_follows_its_group_and_takes_nothing_in() -> None:
    rig = Rig(max_batch_size=2)
    fill(rig, 0, 4)
    rig.member.assign(P0)
    rig.pool.holds = True
    rig.turn()
    polls, serial = len(rig.member.waits), rig.member.serial
    fill(rig, 0, 4)
    rig.worker.finish()
    assert len(rig.member.waits) > polls
    assert rig.member.serial > serial
    assert rig.parts.ledger.count_pending(P0) == 4
    assert rig.settlement.committed == {}


def test_a_worker_that_is_stopped_before_its_model_is_loaded_ends_at_once() -> None:
    rig = Rig()
    rig.worker.run(lambda: True)
    assert rig.settlement.flushes == 0
    assert not rig.member.left


def test_a_failed_settlement_ends_the_worker() -> None:
    rig = Rig()
    rig.settlement.failure = FencedError("replaced")
    with pytest.raises(FencedError):
        rig.worker.step()


def test_an_idle_worker_waits_in_the_poll_and_a_busy_one_does_not() -> None:
    rig = Rig()
    rig.member.assign(P0)
    rig.turn(2)
    assert rig.member.waits[-1] > 0
    fill(rig, 0, 1)
    rig.turn(2)
    assert rig.member.waits[-1] == 0


LANES = TopicSettings(requests=("urgent", "requests"), priorities={"requests": 1})


def test_an_urgent_record_takes_the_slot_in_reserve_at_once_and_passes_what_waits() -> None:
    rig = Rig(topics=LANES, max_batch_size=8)
    rig.pool.holds, rig.pool.urgent_slots = True, 1
    rig.member.assign(P0, ("urgent", 0))
    fill(rig, 0, 40)
    rig.turn(2)
    assert [batch.priority for batch in rig.pool.batches] == [1, 1]
    rig.member.log[("urgent", 0)] = [request(0, topic="urgent")]
    rig.turn(1)
    last = rig.pool.batches[-1]
    assert (len(rig.pool.batches), last.priority, last.reason, len(last.items)) == (3, 0, ReleaseReason.URGENT, 1)


def test_an_urgent_outcome_is_committed_soon_and_others_only_while_a_model_is_idle() -> None:
    rig = Rig(topics=LANES)
    rig.member.assign(P0, ("urgent", 0))
    rig.pool.has_idle_instance = lambda: False  # type: ignore[method-assign]  # always something to do
    fill(rig, 0, 4)
    rig.turn(3)
    assert len(rig.settlement.outcomes) == 4
    assert not rig.settlement.soon
    rig.member.log[("urgent", 0)] = [request(0, topic="urgent")]
    rig.turn(3)
    assert rig.settlement.soon
    fill(rig, 0, 4)
    rig.pool.has_idle_instance = lambda: True  # type: ignore[method-assign]  # as above
    rig.turn(3)
    assert rig.settlement.soon


def test_under_overload_only_the_newest_of_a_live_stream_is_run() -> None:
    rig = Rig(max_batch_size=2, overload="drop_oldest")
    rig.pool.holds = True
    rig.member.assign(P0)
    fill(rig, 0, 4, key=b"a")
    rig.turn(2)
    fill(rig, 0, 5, key=b"a")
    fill(rig, 0, 1, key=b"b")
    rig.turn(1)
    rig.pool.holds = False
    rig.turn(6)
    kinds = dict.fromkeys((4, 5, 6, 7), Superseded)
    assert rig.kinds() == [(0, n, kinds.get(n, Answer)) for n in range(10)]


def test_without_overload_nothing_is_superseded() -> None:
    rig = Rig(max_batch_size=8, overload="drop_oldest")
    rig.member.assign(P0)
    fill(rig, 0, 8, key=b"a")
    rig.turn(4)
    assert [kind for *_, kind in rig.kinds()] == [Answer] * 8


def test_a_record_that_cannot_be_answered_in_time_costs_the_model_nothing() -> None:
    rig = Rig(max_batch_size=4)
    rig.member.assign(P0)
    rig.parts.service_time.note(1.0)
    rig.pool.holds = True
    fill(rig, 0, 4, deadline_ms=200_000)
    rig.turn(1)
    soon = int((rig.now + 0.5) * 1000)
    fill(rig, 0, 3, deadline_ms=soon)
    fill(rig, 0, 1, deadline_ms=200_000)
    rig.turn(2)
    assert [[one.request.offset for one in batch.items] for batch in rig.pool.batches] == [[0, 1, 2, 3], [7]]
    rig.pool.holds = False
    rig.turn(40)
    assert rig.kinds() == [(0, n, Expired if n in (4, 5, 6) else Answer) for n in range(8)]


def test_with_nothing_in_flight_a_late_record_is_tried_all_the_same() -> None:
    rig = Rig(max_batch_size=4)
    rig.member.assign(P0)
    rig.parts.service_time.note(1.0)
    fill(rig, 0, 4, deadline_ms=int((rig.now + 0.5) * 1000))
    rig.turn(2)
    assert [kind for *_, kind in rig.kinds()] == [Answer] * 4


class RecordingWait(FixedWait):
    def __init__(self) -> None:
        super().__init__(0.01)
        self.arrived = 0
        self.in_hand: list[int] = []
        self.served: list[int] = []

    def note_arrivals(self, count: int, now: float) -> None:
        self.arrived += count

    def note_in_hand(self, batches: int) -> None:
        self.in_hand.append(batches)

    def note_service(self, batch_size: int, seconds: float) -> None:
        self.served.append(batch_size)


def test_the_wait_policy_is_told_of_arrivals_and_of_every_answered_batch() -> None:
    rig = Rig()
    wait = rig.parts.wait = RecordingWait()
    fill(rig, 0, 10)
    rig.member.assign(P0)
    rig.turn(10)
    assert wait.arrived == 10
    assert sorted(wait.served) == [2, 4, 4]
    assert wait.in_hand[0] == 0
