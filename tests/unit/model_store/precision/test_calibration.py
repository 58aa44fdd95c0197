import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from model_store.precision.calibration import InputStatistics


def statistics_of(numbers: Any, share: int = 1 << 16) -> InputStatistics:
    seen = InputStatistics()
    seen.add(np.asarray(numbers, np.float32), share)
    return seen


@pytest.mark.parametrize("numbers", [np.zeros(100), np.full(100, 3.5), np.full(100, -2.0), [0.0], np.full(9, 1e-40)])
def test_constant_inputs_give_a_finite_range(numbers: Any) -> None:
    ends = statistics_of(numbers).choose_range()

    assert ends is not None
    assert ends[0] <= ends[1]
    assert all(math.isfinite(end) for end in ends)


def test_what_is_not_finite_is_counted_and_has_no_part_in_the_range() -> None:
    seen = statistics_of([1.0, float("nan"), -2.0, float("inf"), float("-inf")])

    assert (seen.not_finite, seen.low, seen.high) == (3, -2.0, 1.0)


def test_both_infinities_are_no_reason_to_warn() -> None:
    assert statistics_of([float("inf"), float("-inf")]).not_finite == 2


def test_without_a_finite_number_there_is_no_range() -> None:
    assert statistics_of([float("nan")] * 3).choose_range() is None
    assert InputStatistics().choose_range() is None


def test_one_outlier_does_not_crush_the_rest() -> None:
    numbers = np.random.default_rng(0).standard_normal(50_000)
    numbers[77] = 1e4

    ends = statistics_of(numbers).choose_range()

    assert ends is not None
    assert ends[1] < 10


def test_inputs_without_outliers_keep_nearly_their_whole_range() -> None:
    ends = statistics_of(np.linspace(-1, 1, 10_000)).choose_range()

    assert ends == (pytest.approx(-1, abs=0.002), pytest.approx(1, abs=0.002))


@given(arrays(np.float32, st.integers(1, 300), elements=st.floats(width=32)), st.integers(1, 400))
def test_a_range_lies_within_what_was_seen(numbers: Any, share: int) -> None:
    seen = statistics_of(numbers, share)
    ends = seen.choose_range()

    finite = numbers[np.isfinite(numbers)]
    assert seen.not_finite == numbers.size - finite.size
    if ends is None:
        assert not finite.size
    else:
        assert finite.min() <= ends[0] <= ends[1] <= finite.max()
