import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.figures import (
    choose_backlog,
    corrected_latencies,
    count_goodput,
    percentile,
    ratio,
    summarise,
)

NUMBERS = st.lists(st.floats(0, 1e6), min_size=1, max_size=200)


def test_rounds_are_summarised_by_median_lowest_and_highest():
    spread = summarise([30.0, 10.0, 20.0])

    assert (spread.median, spread.low, spread.high) == (20.0, 10.0, 30.0)
    assert spread.relative == 1.0


def test_no_round_is_no_figure():
    with pytest.raises(ValueError, match="no round"):
        summarise([])


def test_a_ratio_to_nothing_is_not_a_number():
    assert ratio(3.0, 2.0) == 1.5
    assert math.isnan(ratio(3.0, 0.0))


def test_a_percentile_is_a_value_that_was_measured():
    values = [float(number) for number in range(1, 101)]

    assert percentile(values, 0.5) == 50.0
    assert percentile(values, 0.99) == 99.0
    assert percentile(values, 0.999) == 100.0
    assert math.isnan(percentile([], 0.5))


def test_a_percentile_beyond_all_values_is_refused():
    with pytest.raises(ValueError, match=r"1\.5"):
        percentile([1.0], 1.5)


@given(NUMBERS, st.floats(0, 1))
def test_at_least_the_share_of_all_values_does_not_exceed_a_percentile(values, share):
    found = percentile(values, share)

    assert found in values
    assert sum(1 for value in values if value <= found) >= share * len(values) - 1e-6


@given(NUMBERS)
def test_a_higher_share_never_has_a_lower_percentile(values):
    assert percentile(values, 0.5) <= percentile(values, 0.9) <= percentile(values, 1.0) == max(values)


def test_latency_counts_from_when_a_request_was_due_and_not_from_when_it_left():
    due = {"a": 1.0, "b": 1.1}
    readable = {"a": 3.0, "b": 3.0}

    found = corrected_latencies(due, readable, closed_at=9.0)

    assert found == {"a": 2.0, "b": pytest.approx(1.9)}


def test_a_request_without_an_answer_has_waited_until_the_reader_closed():
    assert corrected_latencies({"a": 1.0}, {}, closed_at=9.0) == {"a": 8.0}


def test_an_answer_to_nobodys_request_has_no_latency():
    assert corrected_latencies({}, {"warm": 1.0}, closed_at=2.0) == {}


def test_goodput_counts_what_came_in_time_in_the_second_in_which_it_came():
    due = {"in time": 0.2, "later second": 0.8, "late": 0.1, "never": 0.5}
    good = {"in time": 0.4, "later second": 1.2, "late": 1.7, "unasked": 0.3}

    assert count_goodput(due, good, deadline_seconds=1.0) == [1.0, 1.0]


def test_a_backlog_lasts_for_the_seconds_wanted_or_is_the_longest_there_is():
    assert choose_backlog(100.0, 3.0, (100, 400, 900)) == 400
    assert choose_backlog(1.0, 3.0, (100, 400, 900)) == 100
    assert choose_backlog(1e6, 3.0, (100, 400, 900)) == 900
