"""When outcomes become visible, and how long a batch is expected to take."""

from hypothesis import given
from hypothesis import strategies as st

from stream_workers.batching.commit_pace import CommitPace
from stream_workers.batching.service_time import ServiceTime


def test_without_a_hurry_a_commit_comes_once_per_interval() -> None:
    pace = CommitPace(0.1)
    pace.note(0.01, 4.9)
    assert pace.due_at(5.0, soon=False) == 5.1


def test_in_a_hurry_the_first_commit_is_due_at_once() -> None:
    assert CommitPace(0.1).due_at(5.0, soon=True) == 5.0


def test_in_a_hurry_commits_take_no_more_than_their_share_of_the_time() -> None:
    pace = CommitPace(10.0, busy_share=0.2)
    pace.note(0.01, 5.0)
    assert pace.due_at(5.001, soon=True) == 5.0 + 0.04
    assert pace.due_at(6.0, soon=True) == 6.0


@given(costs=st.lists(st.floats(0.001, 2.0), max_size=20), interval=st.floats(0.01, 1.0))
def test_no_commit_is_later_than_its_interval(costs: list[float], interval: float) -> None:
    pace, now = CommitPace(interval), 0.0
    for cost in costs:
        due = pace.due_at(now, soon=True)
        assert now <= due <= now + interval
        now = due + cost
        pace.note(cost, now)


@given(st.lists(st.floats(0.001, 10.0), min_size=1, max_size=50))
def test_the_expectation_lies_within_reach_of_what_was_seen(seconds: list[float]) -> None:
    estimate = ServiceTime()
    assert estimate.expected_seconds == 0
    for one in seconds:
        estimate.note(one)
    assert min(seconds) <= estimate.expected_seconds <= max(seconds) + 4 * max(seconds)


def test_a_steady_service_time_is_learnt() -> None:
    estimate = ServiceTime()
    for _ in range(100):
        estimate.note(0.2)
    assert abs(estimate.expected_seconds - 0.2) < 0.001
