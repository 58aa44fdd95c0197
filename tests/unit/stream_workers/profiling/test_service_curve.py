"""From measured service times to a line and a capacity."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ConfigurationError
from stream_workers.profiling.service_curve import ServiceCurve, SizeTimes, fit_curve


def curve(*pairs: tuple[int, float]) -> ServiceCurve:
    return fit_curve([SizeTimes(size, (seconds,)) for size, seconds in pairs])


@given(fixed=st.floats(0, 0.1), per_record=st.floats(1e-5, 0.1))
def test_an_exact_line_is_found(fixed: float, per_record: float) -> None:
    found = curve(*((size, fixed + per_record * size) for size in (1, 2, 4, 8, 16)))
    assert found.fixed_seconds == pytest.approx(fixed, rel=1e-6, abs=1e-9)
    assert found.per_record_seconds == pytest.approx(per_record, rel=1e-6, abs=1e-9)
    assert found.worst_misfit < 1e-6


@given(st.dictionaries(st.integers(1, 256), st.floats(1e-5, 10), min_size=1, max_size=9))
def test_no_coefficient_is_negative(medians: dict[int, float]) -> None:
    found = curve(*medians.items())
    assert found.fixed_seconds >= 0
    assert found.per_record_seconds >= 0


def test_an_outlier_within_a_size_does_not_move_the_line() -> None:
    clean = fit_curve([SizeTimes(size, (0.01 + 0.001 * size,) * 5) for size in (1, 4, 16)])
    held_up = fit_curve([SizeTimes(size, (0.01 + 0.001 * size,) * 5 + (3.0,)) for size in (1, 4, 16)])
    assert (held_up.fixed_seconds, held_up.per_record_seconds) == (clean.fixed_seconds, clean.per_record_seconds)


def test_predictions_are_exact_where_it_was_measured_and_straight_between() -> None:
    bent = curve((1, 0.010), (2, 0.011), (4, 0.019))
    assert [bent.seconds(size) for size in (1, 2, 3, 4)] == pytest.approx([0.010, 0.011, 0.015, 0.019])
    assert bent.seconds(6) == pytest.approx(0.019 + 2 * bent.per_record_seconds)
    assert bent.largest_size == 4


def test_capacity_counts_all_instances() -> None:
    assert curve((1, 0.01), (8, 0.04)).capacity(8, 2) == pytest.approx(400)


def test_draws_repeat_with_their_seed_and_spread_as_measured() -> None:
    found = fit_curve([SizeTimes(1, (0.01,) * 3), SizeTimes(4, (0.02, 0.04, 0.08))])
    assert {found.draws(1)(1) for _ in range(20)} == {0.01}
    draw, again = found.draws(1), found.draws(1)
    drawn = [draw(4) for _ in range(50)]
    assert drawn == [again(4) for _ in range(50)]
    assert {round(one, 6) for one in drawn} == {0.02, 0.04, 0.08}


def test_spread_is_a_share_of_the_median() -> None:
    assert SizeTimes(1, tuple(float(value) for value in range(1, 11))).spread == pytest.approx((9 - 1) / 5.5)


def test_nothing_measured_is_said() -> None:
    with pytest.raises(ConfigurationError, match="no batch size was measured"):
        fit_curve([])
