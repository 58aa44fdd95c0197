"""Deadlines: who has run out of time, and what the watch may hold for how long."""

from stream_workers.batching.deadlines import MIN_SWEEP, DeadlineWatch
from stream_workers.batching.work import WorkItem
from tests.unit.stream_workers.builders import answered, request


def due(offset: int, partition: int = 0, *, at_ms: int = 1000) -> WorkItem:
    return WorkItem(request(offset, partition, deadline_ms=at_ms), 1, 0.0, "x", 1)


def test_unanswered_records_expire_soonest_first() -> None:
    watch = DeadlineWatch()
    late, soon, done = due(0, at_ms=900), due(1, at_ms=500), answered(due(2, at_ms=100))
    watch.add([late, soon, done])
    assert watch.take_expired(499) == []
    assert watch.take_expired(1000) == [soon, late]


def test_answered_records_with_far_deadlines_are_not_held_for_long() -> None:
    watch = DeadlineWatch()
    waiting = due(0)
    watch.add([waiting])
    for offset in range(1, 20 * MIN_SWEEP):
        watch.add([answered(due(offset))])
    assert len(watch) <= MIN_SWEEP
    assert watch.take_expired(1000) == [waiting]


def test_a_partition_that_was_taken_away_is_not_held() -> None:
    watch = DeadlineWatch()
    kept = due(1, 1)
    watch.add([due(0, 0), kept])
    watch.forget(("requests", 0))
    assert len(watch) == 1
    assert watch.take_expired(1000) == [kept]
