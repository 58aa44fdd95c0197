import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.schedules import Phase, order_of_round, schedule_arrivals


@given(st.lists(st.text(min_size=1), min_size=1, max_size=8, unique=True))
def test_over_as_many_rounds_as_contestants_everybody_has_every_place_once(names):
    rounds = [order_of_round(names, number) for number in range(len(names))]

    for place in zip(*rounds, strict=True):
        assert sorted(place) == sorted(names)


def test_a_round_of_nobody_is_empty():
    assert order_of_round([], 3) == []


def test_arrivals_rise_and_stay_within_their_phases():
    due = schedule_arrivals([Phase(100.0, 2.0), Phase(10.0, 3.0)])

    assert due == sorted(due)
    assert due[0] > 0
    assert due[-1] < 5.0


def test_arrivals_have_the_rate_of_their_phase():
    due = schedule_arrivals([Phase(1000.0, 10.0), Phase(100.0, 10.0)])

    assert sum(1 for at in due if at < 10.0) == pytest.approx(10_000, rel=0.05)
    assert sum(1 for at in due if at >= 10.0) == pytest.approx(1000, rel=0.15)


def test_everybody_meets_the_same_arrivals():
    phases = [Phase(50.0, 4.0)]

    assert schedule_arrivals(phases, seed=1) == schedule_arrivals(phases, seed=1)
    assert schedule_arrivals(phases, seed=1) != schedule_arrivals(phases, seed=2)
