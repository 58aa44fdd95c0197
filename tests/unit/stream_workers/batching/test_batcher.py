"""Batches: who meets whom, and when."""

import math
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_workers.batching.batcher import Batcher
from stream_workers.batching.lane import BatchLimits
from stream_workers.batching.waiting import FixedWait
from stream_workers.batching.work import ReleaseReason, ServedVersion, WorkItem
from tests.unit.stream_workers.builders import answered, item

V1, V2 = ServedVersion("m", "v1", 1), ServedVersion("m", "v2", 2)


def batcher(max_size: int = 4, max_bytes: int = 1000, wait: float = 0.1) -> Batcher:
    return Batcher(BatchLimits(max_size, max_bytes), FixedWait(wait))


def offsets(batch: object) -> list[tuple[int, int]]:
    items, _ = batch  # type: ignore[misc]  # a test helper fed with what next_batch returned
    return [(one.request.partition, one.request.offset) for one in items]


def test_a_full_batch_is_released_at_once() -> None:
    b = batcher()
    b.add([item(n) for n in range(5)])
    due = b.next_batch(0.0)
    assert due is not None
    assert due[1] is ReleaseReason.FULL
    assert offsets(due) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert b.next_batch(0.05) is None


def test_a_record_larger_than_the_limit_makes_a_batch_of_its_own() -> None:
    b = batcher(max_bytes=1000)
    b.add([item(0, size=1200), item(1, size=100)])
    due = b.next_batch(0.0)
    assert due is not None
    assert due[1] is ReleaseReason.COST
    assert offsets(due) == [(0, 0)]


def test_a_partial_batch_is_released_when_the_wait_since_its_first_record_expires() -> None:
    b = batcher(wait=0.1)
    b.add([item(0, at=0.0)])
    # A trickle must not re-arm the timer.
    b.add([item(1, at=0.08)])
    assert b.next_batch(0.099) is None
    assert b.next_release_at() == 0.1
    due = b.next_batch(0.1)
    assert due is not None
    assert due[1] is ReleaseReason.TIMEOUT
    assert offsets(due) == [(0, 0), (0, 1)]


def test_a_trickle_on_another_partition_does_not_re_arm_the_timer() -> None:
    b = batcher(wait=0.1)
    b.add([item(0, 0, at=0.0)])
    b.add([item(0, 1, at=0.08)])
    due = b.next_batch(0.1)
    assert due is not None
    assert offsets(due) == [(0, 0), (1, 0)]


def test_a_short_batch_is_topped_up_from_other_partitions_oldest_first() -> None:
    b = batcher(max_size=4)
    b.add([item(0, 0, at=0.0), item(1, 0, at=0.0)])
    b.add([item(0, 2, at=0.02), item(0, 1, at=0.01)])
    due = b.next_batch(0.02)
    assert due is not None
    assert due[1] is ReleaseReason.FULL
    assert offsets(due) == [(0, 0), (0, 1), (1, 0), (2, 0)]


def test_only_like_shapes_meet() -> None:
    b = batcher(max_size=4, wait=0.1)
    b.add([item(0, shape="a"), item(1, shape="b"), item(2, shape="a")])
    first, second = b.next_batch(0.1), b.next_batch(0.1)
    assert first is not None
    assert second is not None
    assert offsets(first) == [(0, 0), (0, 2)]
    assert offsets(second) == [(0, 1)]


def test_a_batch_never_exceeds_its_bytes() -> None:
    b = batcher(max_size=10, max_bytes=100)
    b.add([item(0, size=60), item(1, size=60)])
    due = b.next_batch(0.0)
    assert due is not None
    assert due[1] is ReleaseReason.COST
    assert offsets(due) == [(0, 0)]


def test_a_rare_shape_is_not_starved_by_a_full_one() -> None:
    b = batcher(max_size=2, wait=0.1)
    b.add([item(0, shape="rare", at=0.0)])
    b.add([item(n, shape="common", at=0.05) for n in range(1, 9)])
    due = b.next_batch(0.1)
    assert due is not None
    assert offsets(due) == [(0, 0)]


def test_partitions_of_the_same_age_take_turns() -> None:
    b = batcher(max_size=2)
    b.add([item(n, 0) for n in range(4)])
    b.add([item(n, 1) for n in range(4)])
    firsts = [offsets(b.next_batch(0.0))[0][0] for _ in range(4)]
    assert firsts == [0, 1, 0, 1]


def test_draining_releases_what_is_there() -> None:
    b = batcher()
    b.add([item(0)])
    due = b.next_batch(0.0, draining=True)
    assert due is not None
    assert due[1] is ReleaseReason.DRAIN


def test_a_dropped_partition_leaves_nothing_behind() -> None:
    b = batcher()
    b.add([item(0, 0), item(1, 0), item(0, 1)])
    assert b.drop(("requests", 0)) == 2
    assert len(b) == 1
    due = b.next_batch(1.0)
    assert due is not None
    assert offsets(due) == [(1, 0)]
    assert b.next_release_at() is None


def test_an_expired_record_never_enters_a_batch() -> None:
    b = batcher(max_size=2)
    first, second, third = item(0), item(1), item(2)
    b.add([first, second, third])
    b.discard(answered(first))
    assert len(b) == 2
    due = b.next_batch(0.0)
    assert due is not None
    assert offsets(due) == [(0, 1), (0, 2)]
    assert len(b) == 0


@given(
    arrivals=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.integers(1, 60), st.booleans()), max_size=60
    ),
    max_size=st.integers(1, 7),
)
def test_every_record_leaves_once_in_partition_and_shape_order_within_the_limits(
    arrivals: list[tuple[int, str, int, bool]], max_size: int
) -> None:
    b = batcher(max_size=max_size, max_bytes=60, wait=1.0)
    now, offset = 0.0, dict.fromkeys(range(4), 0)
    seen: list[tuple[int, str, int]] = []

    def release(draining: bool) -> None:
        while (due := b.next_batch(now, draining=draining)) is not None:
            items, _ = due
            assert 1 <= len(items) <= max_size
            assert len(items) == 1 or sum(one.payload_bytes for one in items) <= 60
            assert len({one.shape_key for one in items}) == 1
            seen.extend((one.request.partition, str(one.shape_key), one.request.offset) for one in items)

    for partition, shape, size, run in arrivals:
        now += 0.3
        b.add([item(offset[partition], partition, at=now, shape=shape, size=size)])
        offset[partition] += 1
        if run:
            release(draining=False)
            assert b.next_release_at() is None or b.next_release_at() > now  # type: ignore[operator]  # just checked
    release(draining=True)
    assert len(b) == 0
    assert len(seen) == len(set(seen)) == len(arrivals)
    for partition in range(4):
        for shape in "ab":
            mine = [n for p, s, n in seen if (p, s) == (partition, shape)]
            assert mine == sorted(mine)


def lanes(share: float = 0.25, priorities: Sequence[int] = (0, 1), max_size: int = 4) -> Batcher:
    limits = {p: BatchLimits(max_size, 1000, at_once=p == 0) for p in priorities}
    return Batcher(limits, FixedWait(0.1), share)


def priority_of(batch: object) -> int:
    items, _ = batch  # type: ignore[misc]  # a test helper fed with what next_batch returned
    (found,) = {one.priority for one in items}
    return int(found)


def test_the_urgent_lane_goes_first_and_waits_for_no_company() -> None:
    b = lanes()
    b.add([item(n, priority=1) for n in range(8)])
    b.add([item(0)])
    due = b.next_batch(0.0)
    assert due is not None
    assert (priority_of(due), due[1]) == (0, ReleaseReason.URGENT)
    assert priority_of(b.next_batch(0.0)) == 1


def test_lanes_never_meet_in_a_batch() -> None:
    b = lanes()
    b.add([item(0), item(0, priority=1)])
    assert [priority_of(b.next_batch(1.0)), priority_of(b.next_batch(1.0))] == [0, 1]
    assert b.next_batch(1.0) is None


def urgent_only(priority: int, version: ServedVersion) -> int:
    return int(priority == 0)


def test_with_room_for_urgent_batches_only_the_others_stay() -> None:
    b = lanes()
    b.add([item(n, priority=1) for n in range(8)])
    assert b.next_batch(1.0, urgent_only) is None
    b.add([item(0)])
    assert priority_of(b.next_batch(1.0, urgent_only)) == 0


@given(share=st.sampled_from([0.05, 0.1, 0.25, 0.5]), count=st.integers(2, 4), rounds=st.integers(20, 80))
def test_every_lane_keeps_its_share_while_more_urgent_ones_always_have_work(
    share: float, count: int, rounds: int
) -> None:
    b = lanes(share, range(count), max_size=1)
    served: list[int] = []
    for n in range(rounds):
        b.add([item(n, priority=p) for p in range(count)])
        served.append(priority_of(b.next_batch(1.0)))
    bound = math.ceil(1 / share) + count - 2
    for lane in range(1, count):
        gaps = [-1, *(n for n, p in enumerate(served) if p == lane), len(served)]
        assert max(later - earlier for earlier, later in pairwise(gaps)) <= bound
    assert served.count(0) >= max(served.count(lane) for lane in range(1, count)) - 1


def test_a_batch_is_bounded_by_cost_and_a_dear_record_goes_alone() -> None:
    b = Batcher(BatchLimits(10, 1000, max_cost=10), FixedWait(0.1))
    b.add([item(0, cost=25), item(1, cost=4), item(2, cost=4), item(3, cost=4)])
    batches = [b.next_batch(0.0), b.next_batch(0.0)]
    assert [offsets(batch) for batch in batches] == [[(0, 0)], [(0, 1), (0, 2)]]
    assert batches[1] is not None
    assert batches[1][1] is ReleaseReason.COST
    assert b.next_batch(0.0) is None


def test_a_doomed_record_is_left_to_its_deadline() -> None:
    b = batcher(max_size=4)
    doomed = item(0, deadline_ms=1000)
    b.add([doomed, item(1, deadline_ms=5000), item(2)])
    due = b.next_batch(1.0, doomed_before_ms=2000)
    assert due is not None
    assert offsets(due) == [(0, 1), (0, 2)]
    assert (len(b), doomed.queued) == (0, False)


def test_a_batch_of_doomed_records_is_none() -> None:
    b = batcher()
    b.add([item(n, deadline_ms=1000) for n in range(6)])
    assert b.next_batch(1.0, doomed_before_ms=2000) is None
    assert len(b) == 0


def test_the_age_of_each_lane_is_that_of_its_oldest_record() -> None:
    b = lanes()
    b.add([item(0, at=3.0, priority=1), item(1, at=5.0, priority=1)])
    assert b.oldest_polled_at() == {1: 3.0}


def versioned(version: ServedVersion, *items: WorkItem) -> list[WorkItem]:
    for one in items:
        one.version = version
    return list(items)


def test_a_batch_never_mixes_versions() -> None:
    b = batcher(max_size=4)
    b.add([*versioned(V1, item(0), item(1)), *versioned(V2, item(2), item(3))])
    first, second = b.next_batch(1.0), b.next_batch(1.0)
    assert (offsets(first), offsets(second)) == ([(0, 0), (0, 1)], [(0, 2), (0, 3)])


def test_a_version_without_room_holds_up_nobody_and_sets_no_clock() -> None:
    b = batcher(max_size=4, wait=0.1)
    b.add([*versioned(V2, item(0)), *versioned(V1, item(0, 1, at=0.05))])

    def free_slots(priority: int, version: ServedVersion) -> int:
        return int(version == V1)

    assert b.next_batch(0.0, free_slots) is None
    assert b.next_release_at(free_slots) == pytest.approx(0.15)
    assert offsets(b.next_batch(1.0, free_slots)) == [(1, 0)]
    assert b.next_batch(1.0, free_slots) is None
    assert b.next_release_at(free_slots) is None
    assert b.count_waiting(lambda version: version == V1) == 1
    assert offsets(b.next_batch(1.0)) == [(0, 0)]


def test_records_are_taken_out_from_an_offset_on_and_queued_anew_under_another_version() -> None:
    b = batcher(max_size=8)
    b.add(versioned(V1, *(item(n, shape="ab"[n % 2]) for n in range(6)), item(9, 1)))
    taken = b.take_from(("requests", 0), 2)
    assert [one.request.offset for one in taken] == [2, 3, 4, 5]
    assert len(b) == 3
    b.add(versioned(V2, *taken))
    assert b.versions() == {V1, V2}
    batches = [b.next_batch(1.0) for _ in range(5)]
    assert sorted(place for due in batches for place in offsets(due)) == [(0, n) for n in range(6)] + [(1, 9)]
    assert b.next_batch(1.0) is None
