"""Partitions that come, go and are paused: what is in flight is finished, what comes late is fenced."""

from stream_workers.batching.work import Answer
from tests.unit.stream_workers.worker_rig import P0, P1, Rig, fill


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
