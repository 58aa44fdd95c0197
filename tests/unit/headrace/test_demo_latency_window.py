"""Latencies of the last seconds."""

import pytest

from headrace.demo.latency_window import LatencyWindow, nearest_rank


def test_percentiles_are_those_of_the_window_only() -> None:
    window = LatencyWindow(5.0)
    window.add(0.0, 9.0)
    for index in range(100):
        window.add(6.0 + index / 100, (index + 1) / 1000)
    assert window.percentiles(7.0, (50, 99, 100)) == [0.05, 0.099, 0.1]


def test_an_empty_window_has_no_percentiles_and_no_rate() -> None:
    window = LatencyWindow(5.0)
    assert window.percentiles(1.0, (50,)) == [None]
    assert window.rate(1.0) == 0.0


def test_the_rate_counts_only_the_time_since_the_first_answer() -> None:
    window = LatencyWindow(5.0)
    for index in range(20):
        window.add(10.0 + index * 0.1, 0.01)
    assert window.rate(12.0) == pytest.approx(10.0)


def test_the_rate_falls_to_zero_when_answers_stop() -> None:
    window = LatencyWindow(5.0)
    window.add(0.0, 0.01)
    assert window.rate(100.0) == 0.0


@pytest.mark.parametrize(("percent", "expected"), [(0, 1.0), (50, 2.0), (51, 3.0), (100, 4.0)])
def test_a_percentile_is_a_value_that_occurred(percent: float, expected: float) -> None:
    assert nearest_rank([1.0, 2.0, 3.0, 4.0], percent) == expected
