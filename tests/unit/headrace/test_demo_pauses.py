"""The longest wait for a result of one partition."""

from headrace.demo.kill import Kill
from headrace.demo.pauses import find_longest_pause

ARRIVALS = {0: [0.0, 0.2, 0.4, 2.4, 2.6], 1: [0.1, 0.3, 0.9, 1.1], 2: [0.5]}


def test_the_longest_pause_of_any_partition_is_found() -> None:
    pause = find_longest_pause(ARRIVALS, after=0.0)
    assert pause is not None
    assert (pause.partition, pause.began, round(pause.seconds, 3)) == (0, 0.4, 2.0)


def test_a_pause_that_was_over_before_the_moment_does_not_count() -> None:
    pause = find_longest_pause(ARRIVALS, after=2.5)
    assert pause is not None
    assert round(pause.seconds, 3) == 0.2


def test_a_partition_with_one_result_has_no_pause() -> None:
    assert find_longest_pause({2: [0.5]}, after=0.0) is None


def test_a_kill_is_charged_with_the_pause_around_it_and_not_with_earlier_or_much_later_ones() -> None:
    kill = Kill(pid=7, at=1.0)
    arrivals = {0: [0.0, 0.5, 2.0, 30.0, 90.0]}
    pause, usual = kill.pause(arrivals), kill.usual_pause(arrivals)
    assert pause is not None
    assert usual is not None
    assert (pause.began, pause.seconds) == (2.0, 28.0)
    assert usual.seconds == 0.5


def test_a_kill_says_what_is_known_so_far() -> None:
    kill = Kill(pid=7, at=1.0)
    assert kill.describe({}, [], 2.0) == "member 7 killed 1 s ago; members now none; no result since"
    assert "members now 8 9; longest pause so far 1.25 s" in kill.describe({0: [0.5, 1.75]}, [8, 9], 2.0)
