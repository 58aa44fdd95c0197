"""The main path against fakes: every record gets one outcome, in order, whatever happens on the way."""

import pytest

from schemas.errors import FencedError
from stream_workers.batching.waiting import FixedWait
from stream_workers.batching.work import Answer, Rejected, Skipped
from stream_workers.kafka.group_member import UnreadableBatch
from tests.unit.stream_workers.worker_rig import P0, P1, Rig, fill


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
