"""When items are due."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.sources.pacing import Pace


@given(st.floats(0.1, 1000), st.integers(2, 50))
def test_items_are_spaced_evenly_for_a_stream_that_keeps_up(fps, count):
    pace, now, sent = Pace(fps), 100.0, []
    for _ in range(count):
        now += pace.delay(now)
        sent.append(now)
    assert sent[0] == 100.0
    assert sent[-1] - sent[0] == pytest.approx((count - 1) / fps)


@given(st.floats(1, 1000), st.lists(st.floats(0, 3), min_size=1, max_size=50))
def test_a_stream_never_runs_ahead_and_never_bursts_for_more_than_a_second_of_debt(fps, work):
    pace, now, sent = Pace(fps), 0.0, []
    for seconds in work:
        now += pace.delay(now)
        sent.append(now)
        now += seconds
    assert pace.delay(now) >= 0
    for first, time in enumerate(sent):
        burst = sum(time <= later <= time + 1 for later in sent[first:])
        assert burst <= 2 * fps + 2


def test_a_short_delay_is_caught_up():
    pace = Pace(10)
    assert pace.delay(0.0) == 0
    assert pace.delay(0.25) == 0
    assert pace.delay(0.25) == 0
    assert pace.delay(0.25) == pytest.approx(0.05)


def test_as_fast_as_possible_never_waits():
    pace = Pace(None)
    assert [pace.delay(now) for now in (0.0, 0.0, 5.0)] == [0.0, 0.0, 0.0]
