import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.canary.intervals import bound_mean_drop, bound_quantile_ranks, bound_rate, bound_rate_increase


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int]:
    trials = draw(st.integers(1, 5000))
    return draw(st.integers(0, trials)), trials


@given(counts())
def test_a_rate_lies_within_its_bounds(count: tuple[int, int]) -> None:
    low, high = bound_rate(*count)

    assert 0 <= low <= count[0] / count[1] <= high <= 1


def test_wilsons_bounds_of_a_textbook_case() -> None:
    # 81 of 263 at 95 % two-sided lies in 0.2553 to 0.3662 (Newcombe 1998, table I); at 99 % one-sided it is wider.
    low, high = bound_rate(81, 263)

    assert (low, high) == pytest.approx((0.2462, 0.3776), abs=2e-3)
    assert bound_rate(0, 200) == pytest.approx((0.0, 0.0263), abs=2e-4)


@pytest.mark.parametrize(("count", "trials"), [(0, 0), (2, 1), (-1, 5)])
def test_what_is_no_rate_is_refused(count: int, trials: int) -> None:
    with pytest.raises(ValueError, match="no rate"):
        bound_rate(count, trials)


@given(counts(), counts())
def test_an_increase_is_surely_no_larger_than_it_looks(new: tuple[int, int], old: tuple[int, int]) -> None:
    assert bound_rate_increase(*new, *old) <= new[0] / new[1] - old[0] / old[1]


@given(counts(), counts())
def test_one_more_error_never_makes_a_canary_look_better(new: tuple[int, int], old: tuple[int, int]) -> None:
    more = min(new[0] + 1, new[1])

    assert bound_rate_increase(more, new[1], *old) >= bound_rate_increase(*new, *old) - 1e-12


@given(st.integers(0, 20), st.integers(20, 400), st.integers(2, 20))
def test_more_of_the_same_is_surer(count: int, trials: int, times: int) -> None:
    once = bound_rate_increase(count, trials, 0, trials)

    assert bound_rate_increase(count * times, trials * times, 0, trials * times) >= once - 1e-12


@pytest.mark.parametrize("rate", [0.005, 0.05, 0.3])
def test_the_bound_is_wrong_about_once_in_a_hundred(rate: float) -> None:
    dice = random.Random(3)
    wrong = 0
    for _ in range(600):
        new = sum(dice.random() < rate for _ in range(200))
        old = sum(dice.random() < rate for _ in range(600))
        wrong += bound_rate_increase(new, 200, old, 600) > 0

    assert wrong <= 600 * 0.025


def test_a_drop_of_means_is_surer_the_less_they_vary() -> None:
    assert bound_mean_drop(0.1, 0.0) == 0.1
    assert bound_mean_drop(0.1, 0.01) < 0 < bound_mean_drop(0.1, 0.0001)
    assert bound_mean_drop(0.1, math.inf) == -math.inf


def test_a_high_quantile_has_an_upper_bound_from_about_a_hundred_samples_on() -> None:
    assert bound_quantile_ranks(0.95, 0) is None
    assert bound_quantile_ranks(0.95, 100) is None
    ranks = bound_quantile_ranks(0.95, 200)
    assert ranks is not None
    assert ranks.low < 0.95 < ranks.high < 1
