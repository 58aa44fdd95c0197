import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.timeline import Author, Timeline
from model_store.version_history import describe_split, describe_time, find_current, list_history
from tests.unit.model_store.timelines import timelines


def test_each_decision_stands_as_something() -> None:
    timeline = Timeline().with_activation("a", 0, 1000, author=Author("ann", "first"))
    timeline = timeline.with_activation("b", 1, 2000, effective_from_ms=4000).with_called_off(2, 3000, Author("ann"))
    timeline = timeline.with_activation("c", 3, 5000).with_activation("d", 4, 6000, effective_from_ms=9000)

    rows = list_history(timeline, {4: {("t", 1): 7, ("t", 0): 9}}, 8000)

    assert [(row.epoch, row.split, row.standing) for row in rows] == [
        (5, "d", "armed"), (4, "c", "active"), (3, "a", ""), (2, "b", "called off"), (1, "a", ""),
    ]  # fmt: skip
    assert [row.cuts for row in rows] == ["", "t[0]@9, t[1]@7", "", "", ""]
    assert (rows[4].by, rows[4].reason, rows[4].takes_effect) == ("ann", "first", "now")
    assert rows[0].takes_effect == "1970-01-01T00:00:09.000Z"


@given(timelines(max_entries=10), st.integers(0, 2**41))
def test_one_decision_at_most_is_active_and_every_one_is_listed(timeline: Timeline, now_ms: int) -> None:
    rows = list_history(timeline, {}, now_ms)

    assert [row.epoch for row in reversed(rows)] == [entry.epoch for entry in timeline.entries]
    assert [row.standing for row in rows].count("active") <= 1
    assert find_current(timeline, now_ms) in timeline.entries


def test_nothing_is_current_without_a_decision() -> None:
    assert find_current(Timeline(), 0) is None
    assert list_history(Timeline(), {}, 0) == []


def test_a_split_is_written_in_shares() -> None:
    assert describe_split({"v1": 7}) == "v1"
    assert describe_split({"v1": 9, "v2": 1}) == "v1 90%, v2 10%"
    assert describe_split({"v1": 999, "v2": 1}) == "v1 99.9%, v2 0.1%"


@pytest.mark.parametrize("number", [1 << 53, 253_402_300_800_000])
def test_a_time_beyond_the_calendar_is_written_as_its_number(number: int) -> None:
    assert describe_time(number) == str(number)
