from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.timeline import CALL_OFF_MARGIN_MS, MAX_ENTRIES, Author, SwitchMode, Timeline, TimelineEntry
from schemas.errors import ConfigurationError, PointerConflictError, UnsafeNameError, VersionNotFoundError
from tests.unit.model_store.test_store import HOSTILE_NAMES
from tests.unit.model_store.timelines import timelines

A, B, C = {"a": 1}, {"b": 1}, {"c": 1}


def armed(at_ms: int = 1000) -> Timeline:
    return Timeline().with_activation("a", 0, 0).with_activation("b", 1, 0, effective_from_ms=at_ms)


def latest_split(timeline: Timeline) -> dict[str, int]:
    assert timeline.latest is not None
    return dict(timeline.latest.split)


@given(timelines())
def test_epochs_rise_and_times_never_fall(timeline: Timeline) -> None:
    epochs = [entry.epoch for entry in timeline.entries]
    times = [entry.effective_from_ms for entry in timeline.entries]

    assert epochs == sorted(set(epochs))
    assert times == sorted(times)
    assert 1 <= len(timeline.entries) <= MAX_ENTRIES


@pytest.mark.parametrize("name", [name for name in HOSTILE_NAMES if isinstance(name, str)])
def test_a_hostile_version_name_is_refused(name: str) -> None:
    with pytest.raises(UnsafeNameError):
        Timeline().with_activation(name, 0, 0)
    with pytest.raises(UnsafeNameError):
        Timeline().with_activation({"good": 1, name: 1}, 0, 0)


@pytest.mark.parametrize(
    "split", [{}, {"a": 0}, {"a": -1}, {"a": 10**9}, {"a": 0.5}, {"a": True}, {f"v{n}": 1 for n in range(17)}]
)
def test_a_split_that_cannot_work_is_refused(split: Any) -> None:
    with pytest.raises(ConfigurationError):
        Timeline().with_activation(split, 0, 0)


@pytest.mark.parametrize(("by", "reason"), [("x" * 81, ""), ("", "x" * 201), ("a\nb", ""), ("", "a\x1b[2Jb")])
def test_an_author_that_would_not_be_read_back_cannot_be_made(by: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match="printable"):
        Author(by, reason)


def test_an_activation_needs_the_epoch_that_was_read() -> None:
    timeline = Timeline().with_activation("v1", 0, 100)

    with pytest.raises(PointerConflictError, match="epoch is 1, not 0"):
        timeline.with_activation("v2", 0, 200)
    assert timeline.with_activation("v2", 1, 200).epoch == 2


def test_an_activation_keeps_who_when_why_and_how() -> None:
    author = Author("ann@host", "better on snow")

    exact = Timeline().with_activation({"a": 9, "b": 1}, 0, 100, effective_from_ms=2100, author=author)

    assert exact.latest == TimelineEntry(1, {"a": 9, "b": 1}, 2100, SwitchMode.EXACT, 100, author)


def test_a_clock_that_steps_back_does_not_turn_time_back() -> None:
    timeline = Timeline().with_activation("v1", 0, 100).with_activation("v2", 1, 50)

    assert timeline.latest == TimelineEntry(2, {"v2": 1}, 100, at_ms=50)


def test_the_floor_lifts_the_epoch_above_what_workers_hold() -> None:
    assert Timeline().with_activation("v1", 0, 0, floor_epoch=7).epoch == 8


def test_an_empty_timeline_has_no_decision() -> None:
    assert (Timeline().latest, Timeline().epoch) == (None, 0)


def test_an_armed_switch_is_called_off_by_an_entry_of_the_same_instant() -> None:
    off = armed(1000).with_called_off(2, 1000 - CALL_OFF_MARGIN_MS - 1, Author("ann"))

    assert off.latest == TimelineEntry(3, A, 1000, SwitchMode.EXACT, 799, Author("ann"))


@pytest.mark.parametrize(
    ("timeline", "epoch", "now_ms"),
    [
        (armed(1000), 2, 1000), (armed(1000), 2, 1000 - CALL_OFF_MARGIN_MS), (armed(1000), 1, 0), (Timeline(), 0, 0),
        (armed(1000).with_activation("c", 2, 0), 3, 0),
        (Timeline().with_activation("a", 0, 0, effective_from_ms=1000), 1, 0),
    ],
)  # fmt: skip
def test_only_the_last_switch_can_be_called_off_and_only_in_time(timeline: Timeline, epoch: int, now_ms: int) -> None:
    with pytest.raises(PointerConflictError):
        timeline.with_called_off(epoch, now_ms)


def test_a_rollback_is_immediate_and_takes_the_last_split_that_differs() -> None:
    timeline = Timeline().with_activation("a", 0, 0).with_activation("b", 1, 10).with_activation("b", 2, 20)

    back = timeline.with_rollback(None, 3, 30, Author("ann", "wrong labels"))

    assert back.latest == TimelineEntry(4, A, 30, SwitchMode.NOW, 30, Author("ann", "wrong labels"))
    assert latest_split(back.with_rollback(None, 4, 40)) == B


def test_a_rollback_ends_a_switch_that_is_still_to_come() -> None:
    back = armed(1000).with_rollback(None, 2, 500)

    assert back.latest == TimelineEntry(3, A, 1000, SwitchMode.NOW, 500)


def test_a_rollback_passes_over_what_was_called_off() -> None:
    off = Timeline().with_activation("c", 0, 0).with_activation("a", 1, 0)
    off = off.with_activation("b", 2, 0, effective_from_ms=1000).with_called_off(3, 500)

    assert latest_split(off.with_rollback(None, 4, 2000)) == C
    with pytest.raises(VersionNotFoundError, match="nothing to roll back to"):
        armed(1000).with_called_off(2, 500).with_rollback(None, 3, 2000)


def test_a_rollback_to_a_named_version_needs_one_that_was_active() -> None:
    timeline = Timeline().with_activation({"a": 9, "b": 1}, 0, 0).with_activation("c", 1, 10)

    assert latest_split(timeline.with_rollback("b", 2, 20)) == B
    with pytest.raises(VersionNotFoundError, match="never active; there were a, b, c"):
        timeline.with_rollback("d", 2, 20)
    with pytest.raises(UnsafeNameError):
        timeline.with_rollback("../d", 2, 20)


@pytest.mark.parametrize("timeline", [Timeline(), Timeline().with_activation("a", 0, 0)])
def test_there_is_nothing_to_roll_back_to_before_a_second_version(timeline: Timeline) -> None:
    with pytest.raises(VersionNotFoundError):
        timeline.with_rollback(None, timeline.epoch, 0)


@given(timelines(max_entries=10), st.integers(0, 2**41))
def test_a_rollback_changes_the_split_and_nothing_that_was_decided(timeline: Timeline, now_ms: int) -> None:
    try:
        back = timeline.with_rollback(None, timeline.epoch, now_ms)
    except VersionNotFoundError:
        return
    assert back.entries[:-1] == timeline.entries
    assert latest_split(back) != latest_split(timeline)


@pytest.mark.parametrize("form", ["camera-{}", "{}", "user:{}@shop", "{:08d}"])
def test_a_split_is_sticky_by_key_and_within_a_hundredth_of_its_shares_over_10000_keys(form: str) -> None:
    entry = TimelineEntry(3, {"new": 10, "old": 90}, 0)
    keys = [form.format(number).encode() for number in range(10_000)]

    picked = [entry.pick(key) for key in keys]

    assert abs(picked.count("new") / 10_000 - 0.1) < 0.01
    again = TimelineEntry(3, {"old": 90, "new": 10}, 0)
    assert [again.pick(key) for key in keys] == picked


@given(st.lists(st.binary(max_size=40), max_size=50), st.integers(1, 99), st.integers(1, 99), st.sampled_from("am"))
def test_a_larger_share_moves_only_the_keys_that_it_gains(keys: list[bytes], one: int, other: int, old: str) -> None:
    low, high = sorted((one, other))
    small = TimelineEntry(1, {"b": low, old: 100 - low}, 0)
    large = TimelineEntry(2, {"b": high, old: 100 - high}, 0)

    assert all(large.pick(key) == "b" for key in keys if small.pick(key) == "b")


def test_an_entry_cannot_be_changed() -> None:
    entry = TimelineEntry(1, {"v1": 1}, 0)

    with pytest.raises(TypeError):
        entry.split["v2"] = 1  # type: ignore[index]  # the point of the test


def test_the_heaviest_version_of_a_split_is_the_one_with_the_largest_share() -> None:
    assert TimelineEntry(1, {"v1": 5, "v2": 90, "v3": 5}, 0).heaviest == "v2"
