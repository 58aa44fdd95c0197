import pytest

from tests.faults.pauses import Answered, Pause, longest_pauses


def test_the_longest_pause_of_each_partition_is_found_longest_first() -> None:
    answered = [Answered("t", 0, at) for at in (10.0, 11.0, 14.0, 15.0)] + [Answered("t", 1, at) for at in (10.0, 15.0)]
    assert longest_pauses(answered, 10.0, 15.0) == [Pause("t", 1, 10.0, 5.0), Pause("t", 0, 11.0, 3.0)]


@pytest.mark.parametrize(("at", "expected"), [(10.0, (10.0, 5.0)), (15.0, (10.0, 5.0)), (12.0, (12.0, 3.0))])
def test_the_edges_of_the_window_count_as_outcomes(at: float, expected: tuple[float, float]) -> None:
    (pause,) = longest_pauses([Answered("t", 0, at)], 10.0, 15.0)
    assert (pause.began_at_seconds, pause.seconds) == expected


def test_outcomes_beyond_the_window_do_not_shorten_a_pause_and_their_order_does_not_matter() -> None:
    (pause,) = longest_pauses([Answered("t", 0, at) for at in (20.0, 12.0, 1.0, 11.0)], 10.0, 15.0)
    assert (pause.began_at_seconds, pause.seconds) == (12.0, 3.0)
