import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.timeline import (
    MAX_BY_CHARS,
    MAX_ENTRIES,
    MAX_REASON_CHARS,
    MAX_SPLIT,
    MAX_WEIGHT,
    Author,
    SwitchMode,
    Timeline,
    TimelineEntry,
)
from model_store.timeline_codec import MAX_TIMELINE_BYTES, decode_timeline, encode_timeline
from schemas.errors import InvalidPointerError
from tests.unit.model_store.test_store import HOSTILE_NAMES
from tests.unit.model_store.timelines import timelines


def stored(**changes: Any) -> dict[str, Any]:
    return {"epoch": 1, "effective_from_ms": 5, "split": {"v1": 1}, **changes}


def text(*entries: Any, **changes: Any) -> bytes:
    return json.dumps({"format": 1, "entries": list(entries), **changes}).encode()


@given(timelines())
def test_what_is_written_is_read_back(timeline: Timeline) -> None:
    assert decode_timeline(encode_timeline(timeline)) == timeline
    assert len(timeline.entries) <= MAX_ENTRIES


def test_the_largest_timeline_that_can_be_made_can_be_read() -> None:
    widest = Author("\N{PILE OF POO}" * MAX_BY_CHARS, "\N{PILE OF POO}" * MAX_REASON_CHARS)
    split = {f"{n:02}".ljust(64, "v"): MAX_WEIGHT for n in range(MAX_SPLIT)}
    numbers = range((1 << 53) - MAX_ENTRIES, 1 << 53)
    full = Timeline(tuple(TimelineEntry(n, split, n, SwitchMode.EXACT, n, widest) for n in numbers))

    assert len(encode_timeline(full)) <= MAX_TIMELINE_BYTES
    assert decode_timeline(encode_timeline(full)) == full


def test_an_entry_without_a_mode_is_one_from_now_on_and_is_written_again_as_it_was() -> None:
    older = json.dumps({"format": 1, "entries": [stored()]}, separators=(",", ":")).encode()
    timeline = decode_timeline(older)

    assert timeline.latest == TimelineEntry(1, {"v1": 1}, 5, SwitchMode.NOW, 0, Author())
    assert encode_timeline(timeline) == older


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
        text(stored(mode="later")), text(stored(mode=None)), text(stored(mode=["now"])), text(stored(mode={})),
        text(stored(at_ms=-1)), text(stored(at_ms="5")), text(stored(at_ms=True)),
        text(stored(by=5)), text(stored(by=None)), text(stored(by="x" * 81)), text(stored(by="a\x1b[2Jb")),
        text(stored(reason=["x"])), text(stored(reason="x" * 201)), text(stored(reason="a\nb")),
        text(stored(reason="a\u202eb")), text(stored(reason=0)), text({"epoch": 1, "split": {"v1": 1}, "mode": "now"}),
        b'{"format":1,"format":1,"entries":[]}',
    ],
)  # fmt: skip
def test_a_hostile_value_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidPointerError):
        decode_timeline(data)


@pytest.mark.parametrize("name", [name for name in HOSTILE_NAMES if isinstance(name, str)])
def test_a_hostile_version_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidPointerError):
        decode_timeline(text(stored(split={name: 1})))
