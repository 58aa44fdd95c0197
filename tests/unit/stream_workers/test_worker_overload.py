"""Deadlines, urgent lanes and live streams in the worker: what is run first, and what the model never sees."""

from schemas.settings import TopicSettings
from stream_workers.batching.work import Answer, Expired, ReleaseReason, Superseded
from tests.unit.stream_workers.builders import request
from tests.unit.stream_workers.worker_rig import P0, Rig, fill

LANES = TopicSettings(requests=("urgent", "requests"), priorities={"requests": 1})


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
