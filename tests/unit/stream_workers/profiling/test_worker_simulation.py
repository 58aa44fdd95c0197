"""A worker in virtual time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_workers.batching.adaptive_wait import AdaptiveWait
from stream_workers.profiling.arrivals import percentile, poisson_arrivals
from stream_workers.profiling.worker_simulation import PARTITIONS, WorkerShape, simulate, visible_at


def test_a_lone_record_waits_its_time_and_is_served() -> None:
    run = simulate([1.0], WorkerShape(2, 2, 8, 0.02), lambda size: 0.1 * size)
    assert run.answered_at[0] == pytest.approx(1.12, abs=1e-6)
    assert run.batch_sizes == [1]


def test_a_full_batch_does_not_wait() -> None:
    run = simulate([1.0, 1.1, 1.2, 5.0], WorkerShape(1, 1, 3, 10.0), lambda size: 0.5)
    assert run.answered_at[:3] == pytest.approx([1.7] * 3, abs=1e-6)
    assert run.batch_sizes == [3, 1]


def test_without_a_free_slot_records_gather() -> None:
    run = simulate([0.0, 0.1, 0.2, 0.3], WorkerShape(1, 1, 8, 0.0), lambda size: 1.0)
    assert run.batch_sizes == [1, 3]
    assert run.answered_at == pytest.approx([1.0, 2.0, 2.0, 2.0], abs=1e-6)


def test_a_second_slot_seals_a_batch_behind_the_one_that_runs() -> None:
    run = simulate([0.0, 0.1, 0.2, 0.3], WorkerShape(1, 2, 8, 0.0), lambda size: 1.0)
    assert run.batch_sizes == [1, 1, 2]
    assert run.answered_at == pytest.approx([1.0, 2.0, 3.0, 3.0], abs=1e-6)


def test_instances_work_side_by_side() -> None:
    run = simulate([0.0, 0.1, 0.2], WorkerShape(3, 1, 1, 0.0), lambda size: 1.0)
    assert run.answered_at == pytest.approx([1.0, 1.1, 1.2], abs=1e-6)


@given(
    rate=st.floats(1, 5000),
    shape=st.builds(WorkerShape, st.integers(1, 4), st.integers(1, 3), st.integers(1, 40), st.floats(0, 0.2)),
    adaptive=st.booleans(),
)
def test_every_record_is_answered_once_after_it_came(rate: float, shape: WorkerShape, adaptive: bool) -> None:
    arrivals = poisson_arrivals(rate, 150, 1)
    wait = AdaptiveWait(shape.instances, shape.max_batch_size) if adaptive else None
    run = simulate(arrivals, shape, lambda size: 0.004 + 0.001 * size, wait)
    assert sum(run.batch_sizes) == 150
    assert max(run.batch_sizes) <= shape.max_batch_size
    assert all(ended >= came + 0.005 - 1e-9 for came, ended in zip(arrivals, run.answered_at, strict=True))


def test_throughput_of_a_backlog_is_that_of_full_batches() -> None:
    run = simulate([0.0] * 3200, WorkerShape(2, 2, 32, 0.0), lambda size: 0.01 + 0.001 * size)
    assert run.records_per_second == pytest.approx(2 * 32 / 0.042, rel=0.02)


def test_an_answer_is_visible_with_the_commit_and_in_the_order_of_its_partition() -> None:
    answered = [1.0] * (PARTITIONS + 1)
    answered[0] = 3.0
    visible = visible_at(answered, 0.1)
    assert visible[1] == pytest.approx(1.1)
    assert visible[0] == pytest.approx(3.1)
    assert visible[PARTITIONS] == pytest.approx(3.1)  # behind record 0 of its partition


@given(st.lists(st.floats(0, 100), min_size=1, max_size=100), st.floats(0, 1))
def test_nothing_is_visible_before_it_was_answered(answered: list[float], interval: float) -> None:
    assert all(seen >= ended for seen, ended in zip(visible_at(answered, interval), answered, strict=True))


def test_arrivals_are_repeatable_and_of_the_rate() -> None:
    arrivals = poisson_arrivals(50, 20_000, 3)
    assert arrivals == poisson_arrivals(50, 20_000, 3)
    assert arrivals != poisson_arrivals(50, 20_000, 4)
    assert arrivals[-1] == pytest.approx(400, rel=0.03)


def test_a_percentile_is_the_nearest_rank() -> None:
    values = list(range(1, 101))
    assert percentile(values, 0.5) == 50
    assert percentile(values, 0.99) == 99
    assert percentile(values, 1.0) == 100
    assert percentile([7.0], 0.01) == 7
