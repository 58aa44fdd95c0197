import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.canary.tally import Kind, LatencyHistogram, MeanSum, Observation, Percentile, Tally


def percentile_of(latencies: list[float], batch_size: int = 1) -> Percentile:
    histogram = LatencyHistogram()
    for latency in latencies:
        histogram.add(latency, batch_size)
    found = histogram.find_percentile()
    assert found is not None
    return found


@given(st.lists(st.floats(0.01, 1e6), min_size=1, max_size=300))
def test_the_percentile_is_that_of_the_samples_to_within_a_bucket(latencies: list[float]) -> None:
    exact = sorted(latencies)[-(-95 * len(latencies) // 100) - 1]

    assert percentile_of(latencies).estimate == pytest.approx(exact, rel=0.0201)


def test_few_samples_have_no_bounds_and_none_have_no_percentile() -> None:
    assert LatencyHistogram().find_percentile() is None
    assert percentile_of([1.0] * 100).bounds is None
    assert percentile_of([1.0] * 200).bounds is not None


def test_the_records_of_a_batch_are_not_samples_of_their_own() -> None:
    assert percentile_of([1.0] * 1600, batch_size=16).bounds is None
    assert percentile_of([1.0] * 3200, batch_size=16).bounds is not None


def test_no_time_at_all_and_no_end_of_time_are_times() -> None:
    assert percentile_of([0.0, 0.0]).estimate < 0.01
    assert 1e9 <= percentile_of([1e308]).estimate < 1.1e9


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=100))
def test_the_mean_and_its_variance(values: list[float]) -> None:
    summed = MeanSum()
    for value in values:
        summed.add(value)

    assert summed.mean == pytest.approx(statistics.fmean(values), abs=1e-6, rel=1e-9)
    assert summed.variance_of_mean == pytest.approx(statistics.variance(values) / len(values), abs=1e-3, rel=1e-6)


def test_one_value_has_a_mean_and_no_variance() -> None:
    summed = MeanSum()
    summed.add(3.0)

    assert (summed.mean, summed.variance_of_mean) == (3.0, float("inf"))


def test_whatever_is_no_good_answer_is_an_error() -> None:
    tally = Tally()
    for kind in Kind:
        tally.add(Observation(kind))

    assert (tally.results, tally.errors) == (4, 3)
