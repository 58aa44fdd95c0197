"""Waiting is decided from the load."""

import math

from hypothesis import given
from hypothesis import strategies as st

from schemas.settings import BatchingSettings, Settings
from stream_workers.assembly import choose_wait
from stream_workers.batching.adaptive_wait import AdaptiveWait, plan_waits
from stream_workers.batching.batcher import Batcher
from stream_workers.batching.lane import BatchLimits
from stream_workers.batching.waiting import FixedWait
from stream_workers.batching.work import ReleaseReason
from tests.unit.stream_workers.builders import item

seconds = st.floats(1e-5, 1.0)
rates = st.floats(0.01, 1e5)


@given(rate=rates, fixed=seconds, per_record=seconds, instances=st.integers(1, 16), size=st.integers(1, 512))
def test_no_wait_is_longer_than_a_full_batch_takes_to_arrive(
    rate: float, fixed: float, per_record: float, instances: int, size: int
) -> None:
    waits = plan_waits(rate, fixed, per_record, instances, size)
    assert 0 <= waits.when_idle <= size / rate
    assert waits.when_busy >= waits.when_idle


@given(fixed=seconds, per_record=seconds, instances=st.integers(1, 16))
def test_at_little_load_nothing_waits_for_company(fixed: float, per_record: float, instances: int) -> None:
    rate = 0.05 * instances / (fixed + per_record)
    assert plan_waits(rate, fixed, per_record, instances, 64).when_idle == 0


@given(rate=rates, per_record=seconds, instances=st.integers(2, 16))
def test_without_a_fixed_cost_there_is_nothing_to_save(rate: float, per_record: float, instances: int) -> None:
    assert plan_waits(rate, 0.0, per_record, instances, 64) == plan_waits(0.0, 1.0, per_record, instances, 64)
    assert plan_waits(rate, 0.0, per_record, instances, 64).when_busy == 0


@given(fixed=st.floats(0.01, 0.1), share=st.floats(0.3, 0.8), instances=st.integers(1, 8))
def test_near_capacity_a_batch_waits_for_the_sustainable_gap(fixed: float, share: float, instances: int) -> None:
    per_record = fixed / 100
    rate = share * instances * 64 / (fixed + per_record * 64)
    waits = plan_waits(rate, fixed, per_record, instances, 64)
    assert waits.when_idle > 0
    size = rate * (waits.when_idle + 1 / rate)
    busy = (fixed + per_record * size) / (instances * size / rate)
    assert busy < 1.3  # a lone instance keeps its gap by itself


def test_a_fast_model_holds_back_while_all_are_busy_and_not_when_parallel_work_is_worth_more() -> None:
    assert plan_waits(400, 0.05, 0.001, 2, 32).when_busy == math.inf
    assert plan_waits(90, 0.001, 0.02, 2, 16).when_busy < 0.02
    assert plan_waits(40, 0.001, 0.02, 1, 16).when_busy == math.inf


def test_before_the_first_answer_nothing_waits() -> None:
    wait = AdaptiveWait(2, 32)
    for step in range(100):
        wait.note_arrivals(10, step * 0.01)
    wait.note_in_hand(4)
    assert wait.wait_seconds(1.0) == 0


def test_the_wait_follows_the_load_and_what_is_in_hand() -> None:
    wait = AdaptiveWait(2, 32)
    for step in range(1000):
        wait.note_arrivals(4, step * 0.01)
        wait.note_service(1 + step % 16, 0.05 + 0.001 * (1 + step % 16))
    wait.note_in_hand(1)
    idle = wait.wait_seconds(10.0)
    assert 0.02 < idle < 0.05
    wait.note_in_hand(2)
    assert wait.wait_seconds(10.0) == math.inf
    wait.note_in_hand(0)
    assert wait.wait_seconds(60.0) == 0


class Told(FixedWait):
    """A wait that a test changes."""

    seconds = 0.0

    def wait_seconds(self, now: float) -> float:
        return self.seconds


def test_the_batcher_asks_its_policy_and_not_the_limit() -> None:
    wait = Told(0.0)
    batcher = Batcher(BatchLimits(4, 1000), wait)
    wait.seconds = math.inf
    batcher.add([item(0, at=1.0)])
    assert batcher.next_batch(50.0) is None
    assert batcher.next_release_at() == math.inf
    wait.seconds = 0.5
    assert batcher.next_batch(1.4) is None
    assert batcher.next_release_at() == 1.5
    due = batcher.next_batch(1.5)
    assert due is not None
    assert due[1] is ReleaseReason.TIMEOUT


def test_a_full_batch_does_not_wait() -> None:
    wait = Told(0.0)
    wait.seconds = math.inf
    batcher = Batcher(BatchLimits(2, 1000), wait)
    batcher.add([item(0), item(1)])
    due = batcher.next_batch(0.0)
    assert due is not None
    assert due[1] is ReleaseReason.FULL


def test_the_settings_choose_the_policy() -> None:
    fixed = choose_wait(Settings(batching=BatchingSettings(max_wait_ms=7)))
    assert fixed.wait_seconds(0.0) == 0.007
    assert isinstance(choose_wait(Settings(batching=BatchingSettings(max_wait_ms="auto"))), AdaptiveWait)
