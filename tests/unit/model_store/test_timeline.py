import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.timeline import (
    MAX_ENTRIES,
    MAX_TIMELINE_BYTES,
    Timeline,
    TimelineEntry,
    decode_timeline,
    encode_timeline,
)
from schemas.errors import InvalidPointerError, PointerConflictError, UnsafeNameError
from tests.unit.model_store.test_store import HOSTILE_NAMES

NAMES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,9}", fullmatch=True)


@st.composite
def timelines(draw: st.DrawFn) -> Timeline:
    timeline = Timeline()
    for version in draw(st.lists(NAMES, min_size=1, max_size=MAX_ENTRIES + 5)):
        timeline = timeline.with_activation(
            version, timeline.epoch, draw(st.integers(0, 2**40)), draw(st.integers(0, 1000))
        )
    return timeline


def stored(**changes: Any) -> dict[str, Any]:
    return {"epoch": 1, "effective_from_ms": 5, "split": {"v1": 1}, **changes}


def text(*entries: Any, **changes: Any) -> bytes:
    return json.dumps({"format": 1, "entries": list(entries), **changes}).encode()


@given(timelines())
def test_what_is_written_is_read_back(timeline: Timeline) -> None:
    assert decode_timeline(encode_timeline(timeline)) == timeline
    assert len(timeline.entries) <= MAX_ENTRIES


@given(timelines(), st.integers(0, 2**41), st.integers(0, 2**41))
def test_later_records_never_meet_an_earlier_version(timeline: Timeline, one: int, other: int) -> None:
    earlier, later = timeline.at(min(one, other)), timeline.at(max(one, other))

    assert earlier is not None
    assert later is not None
    assert earlier.epoch <= later.epoch


@given(
    st.binary(max_size=80)
    | st.recursive(st.none() | st.integers() | st.text(max_size=4), st.lists).map(str).map(str.encode)
)
def test_no_bytes_raise_anything_but_an_invalid_pointer(data: bytes) -> None:
    with pytest.raises(InvalidPointerError):
        decode_timeline(data)


@pytest.mark.parametrize(
    "data",
    [
        b" " * (MAX_TIMELINE_BYTES + 1), b"[" * 5000 + b"]" * 5000, b"v1", b'"v1"', b'["v1"]', b"{}", b"\x80\x04.",
        text(), text(*[stored(epoch=n + 1) for n in range(MAX_ENTRIES + 1)]), text(stored(), more=1),
        text(stored(), format=2),
        text("v1"), text(stored(more=1)), text(stored(split={})), text(stored(split=["v1"])), text(stored(split="v1")),
        text(stored(split={f"v{n}": 1 for n in range(17)})), text(stored(split={"v1": 0})),
        text(stored(split={"v1": -1})),
        text(stored(split={"v1": 0.5})), text(stored(split={"v1": True})), text(stored(split={"v1": 10**9})),
        text(stored(epoch=0)), text(stored(epoch=-1)), text(stored(epoch="1")), text(stored(epoch=2**60)),
        text(stored(effective_from_ms=-1)), text(stored(effective_from_ms=None)),
        text(stored(epoch=2), stored(epoch=2)),
        text(stored(epoch=2), stored(epoch=1)), text(stored(), stored(epoch=2, effective_from_ms=4)),
        b'{"format":1,"format":1,"entries":[]}',
    ],
)  # fmt: skip
def test_a_hostile_value_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidPointerError):
        decode_timeline(data)


@pytest.mark.parametrize("name", [name for name in HOSTILE_NAMES if isinstance(name, str)])
def test_a_hostile_version_name_is_refused_both_ways(name: str) -> None:
    with pytest.raises(InvalidPointerError):
        decode_timeline(text(stored(split={name: 1})))
    with pytest.raises(UnsafeNameError):
        Timeline().with_activation(name, 0, 0)


def test_an_activation_needs_the_epoch_that_was_read() -> None:
    timeline = Timeline().with_activation("v1", 0, 100)

    with pytest.raises(PointerConflictError, match="epoch is 1, not 0"):
        timeline.with_activation("v2", 0, 200)
    assert timeline.with_activation("v2", 1, 200).epoch == 2


def test_a_clock_that_steps_back_does_not_turn_time_back() -> None:
    timeline = Timeline().with_activation("v1", 0, 100).with_activation("v2", 1, 50)

    assert timeline.latest == TimelineEntry(2, {"v2": 1}, 100)


def test_the_floor_lifts_the_epoch_above_what_workers_hold() -> None:
    assert Timeline().with_activation("v1", 0, 0, floor_epoch=7).epoch == 8


def test_an_empty_timeline_has_no_decision() -> None:
    assert (Timeline().latest, Timeline().epoch, Timeline().at(0)) == (None, 0, None)


def test_a_record_older_than_all_that_is_kept_meets_the_oldest() -> None:
    timeline = Timeline().with_activation("v1", 0, 100).with_activation("v2", 1, 200)

    assert [timeline.at(time).split for time in (0, 100, 199, 200)] == [{"v1": 1}, {"v1": 1}, {"v1": 1}, {"v2": 1}]  # type: ignore[union-attr]  # none is None


def test_a_split_is_sticky_by_key_and_keeps_its_shares() -> None:
    entry = TimelineEntry(3, {"new": 1, "old": 9}, 0)
    keys = [f"camera-{n}".encode() for n in range(5000)]

    picked = Counter(entry.pick(key) for key in keys)

    assert [entry.pick(key) for key in keys[:50]] == [entry.pick(key) for key in keys[:50]]
    assert 0.07 < picked["new"] / 5000 < 0.13


def test_a_larger_share_moves_only_the_keys_that_it_gains() -> None:
    keys = [f"camera-{n}".encode() for n in range(500)]
    small, large = TimelineEntry(1, {"new": 1, "old": 9}, 0), TimelineEntry(2, {"new": 3, "old": 7}, 0)

    assert all(large.pick(key) == "new" for key in keys if small.pick(key) == "new")


def test_an_entry_cannot_be_changed() -> None:
    entry = TimelineEntry(1, {"v1": 1}, 0)

    with pytest.raises(TypeError):
        entry.split["v2"] = 1  # type: ignore[index]  # the point of the test


def test_the_heaviest_version_of_a_split_is_the_one_with_the_largest_share() -> None:
    assert TimelineEntry(1, {"v1": 5, "v2": 90, "v3": 5}, 0).heaviest == "v2"
