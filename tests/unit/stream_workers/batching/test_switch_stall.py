from hypothesis import given
from hypothesis import strategies as st

from stream_workers.batching.switch_stall import Met, SwitchStall


def test_a_stall_is_the_adoption_and_every_stretch_in_which_nothing_could_start() -> None:
    stall = SwitchStall()
    stall.open(2, 10.0, 10.5)
    for at, is_blocked in ((11.0, True), (12.0, True), (13.0, False), (20.0, True)):
        stall.note_turn(at, is_blocked=is_blocked)
    assert stall.close(1, 20.5) is None
    assert stall.close(2, 21.0) == Met(2, 3.5, 11.0)
    assert not stall.is_open
    assert stall.close(2, 22.0) is None


def test_what_a_switch_cost_that_no_batch_met_counts_for_the_next_one() -> None:
    stall = SwitchStall()
    stall.open(2, 0.0, 1.0)
    stall.note_turn(1.0, is_blocked=True)
    stall.open(3, 5.0, 6.0)
    stall.note_turn(7.0, is_blocked=False)
    assert stall.close(2, 7.0) is None
    assert stall.close(3, 8.0) == Met(3, 7.0, 3.0)


def test_a_stall_that_ended_is_not_counted_again() -> None:
    stall = SwitchStall()
    stall.open(2, 0.0, 1.0)
    stall.note_turn(1.0, is_blocked=True)
    stall.close(2, 2.0)
    stall.open(3, 100.0, 100.0)
    assert stall.close(4, 101.0) == Met(3, 0.0, 1.0)


def test_a_batch_in_the_turn_of_the_adoption_comes_after_no_time() -> None:
    stall = SwitchStall()
    stall.open(2, 10.0, 10.0)
    assert stall.close(2, 9.999) == Met(2, 0.0, 0.0)


@given(st.lists(st.tuples(st.floats(0, 10), st.booleans())), st.floats(0, 10))
def test_a_stall_is_never_longer_than_the_time_to_the_first_batch(
    turns: list[tuple[float, bool]], last_seconds: float
) -> None:
    stall, now = SwitchStall(), 1.0
    stall.open(1, 0.0, now)
    for seconds, is_blocked in turns:
        now += seconds
        stall.note_turn(now, is_blocked=is_blocked)
    met = stall.close(1, now + last_seconds)
    assert met is not None
    assert 1.0 <= met.stalled_seconds <= met.after_seconds + 1e-6
