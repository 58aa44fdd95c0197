"""What the adaptive wait believes of the load."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_workers.batching.load_estimates import ArrivalRate, ServiceFit


def test_a_steady_rate_is_found_whatever_the_bursts() -> None:
    rate = ArrivalRate()
    for step in range(400):
        rate.note(5, step * 0.05)
    assert rate.at(400 * 0.05) == pytest.approx(100, rel=0.03)


def test_silence_is_forgotten_into() -> None:
    rate = ArrivalRate(memory_seconds=2.0)
    for step in range(200):
        rate.note(1, step * 0.05)
    before = rate.at(10.0)
    assert rate.at(14.0) < 0.25 * before
    assert rate.at(60.0) < 1e-6


def test_the_first_burst_is_not_taken_for_the_rate() -> None:
    rate = ArrivalRate()
    assert rate.at(5.0) == 0
    rate.note(1, 5.0)
    assert rate.at(5.0) <= 11


def test_a_clock_that_stands_still_or_steps_back_does_no_harm() -> None:
    rate = ArrivalRate()
    rate.note(3, 1.0)
    rate.note(3, 1.0)
    rate.note(3, 0.5)
    assert rate.at(0.9) > 0


@given(
    fixed=st.floats(0.001, 0.1),
    per_record=st.floats(0.0001, 0.05),
    sizes=st.lists(st.integers(1, 64), min_size=8, max_size=200).filter(lambda sizes: len(set(sizes)) > 3),
)
def test_an_exact_line_is_found(fixed: float, per_record: float, sizes: list[int]) -> None:
    fit = ServiceFit()
    for size in sizes:
        fit.note(size, fixed + per_record * size)
    found = fit.coefficients()
    assert found[0] == pytest.approx(fixed, rel=0.02, abs=1e-5)
    assert found[1] == pytest.approx(per_record, rel=0.02, abs=1e-5)


@given(st.lists(st.tuples(st.integers(1, 256), st.floats(0, 10)), max_size=100))
def test_no_measurement_makes_a_coefficient_negative(batches: list[tuple[int, float]]) -> None:
    fit = ServiceFit()
    for size, seconds in batches:
        fit.note(size, seconds)
        fixed, per_record = fit.coefficients()
        assert fixed >= 0
        assert per_record >= 0


def test_while_all_batches_have_one_size_nothing_is_taken_for_a_fixed_cost() -> None:
    fit = ServiceFit()
    for _ in range(50):
        fit.note(16, 0.1)
    fixed, per_record = fit.coefficients()
    assert fixed == 0
    assert per_record == pytest.approx(0.1 / 16)


def test_what_was_told_apart_is_kept_when_sizes_no_longer_vary() -> None:
    fit = ServiceFit()
    for size in (1, 4, 8, 16) * 30:
        fit.note(size, 0.05 + 0.001 * size)
    for _ in range(2000):
        fit.note(16, 0.05 + 0.001 * 16)
    assert fit.coefficients() == (pytest.approx(0.05, rel=0.05), pytest.approx(0.001, rel=0.2))


def test_a_fixed_cost_within_the_noise_counts_for_nothing() -> None:
    draw = random.Random(1)
    fit = ServiceFit()
    for _ in range(500):
        size = draw.randint(1, 4)
        fit.note(size, (0.0005 + 0.02 * size) * draw.uniform(0.8, 1.2))
    assert fit.coefficients()[0] < 0.0005
