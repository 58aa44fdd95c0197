"""Timelines as bytes: what is kept in Redis and in the state folder, read as input that anybody may have written."""

from typing import Any

import msgspec

from model_store.json_codec import decode_json
from model_store.timeline import (
    MAX_ENTRIES,
    MAX_NUMBER,
    MAX_SPLIT,
    MAX_WEIGHT,
    NOBODY,
    Author,
    SwitchMode,
    Timeline,
    TimelineEntry,
)
from schemas.errors import ConfigurationError, InvalidPointerError, InvalidRecordError, UnsafeNameError
from schemas.names import check_name

MAX_TIMELINE_BYTES = 256 * 1024
"""Room for MAX_ENTRIES of the largest entries that can be made."""
_MAX_DEPTH = 8
_FORMAT = 1
_NEEDED = {"epoch", "effective_from_ms", "split"}
_OPTIONAL = {"mode", "at_ms", "by", "reason"}


def encode_timeline(timeline: Timeline) -> bytes:
    """Write a timeline as JSON."""
    return msgspec.json.encode({"format": _FORMAT, "entries": [_fields(entry) for entry in timeline.entries]})


def decode_timeline(data: bytes) -> Timeline:
    """Read a timeline that anybody may have written. Raises InvalidPointerError; nothing in it is opened or run."""
    if len(data) > MAX_TIMELINE_BYTES:
        raise InvalidPointerError(f"a timeline of {len(data)} bytes: at most {MAX_TIMELINE_BYTES} are allowed")
    try:
        value = decode_json(data, _MAX_DEPTH)
    except InvalidRecordError as error:
        raise InvalidPointerError(f"not a timeline: {error}") from None
    if not isinstance(value, dict) or value.keys() != {"format", "entries"} or value["format"] != _FORMAT:
        raise InvalidPointerError(f"not a timeline: an object with format {_FORMAT} and entries is needed")
    entries = value["entries"]
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_ENTRIES:
        raise InvalidPointerError(f"not a timeline: 1 to {MAX_ENTRIES} entries are needed")
    timeline = Timeline(tuple(_entry(entry) for entry in entries))
    for before, after in zip(timeline.entries, timeline.entries[1:], strict=False):
        if after.epoch <= before.epoch or after.effective_from_ms < before.effective_from_ms:
            raise InvalidPointerError(f"not a timeline: epoch {after.epoch} does not follow epoch {before.epoch}")
    return timeline


def _fields(entry: TimelineEntry) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "epoch": entry.epoch,
        "effective_from_ms": entry.effective_from_ms,
        "split": dict(entry.split),
    }
    # What an older entry does not have is not added to it when the list is written again.
    if entry.mode is SwitchMode.EXACT:
        fields["mode"] = entry.mode.value
    if entry.at_ms:
        fields["at_ms"] = entry.at_ms
    if entry.author.by:
        fields["by"] = entry.author.by
    if entry.author.reason:
        fields["reason"] = entry.author.reason
    return fields


def _entry(value: Any) -> TimelineEntry:
    if not isinstance(value, dict) or not _NEEDED <= value.keys() <= _NEEDED | _OPTIONAL:
        raise InvalidPointerError(
            "a timeline entry needs epoch, effective_from_ms and split, and may have mode, at_ms, by and reason"
        )
    return TimelineEntry(
        _number("epoch", value["epoch"], 1, MAX_NUMBER),
        _split(value["split"]),
        _number("effective_from_ms", value["effective_from_ms"], 0, MAX_NUMBER),
        _mode(value.get("mode", SwitchMode.NOW.value)),
        _number("at_ms", value.get("at_ms", 0), 0, MAX_NUMBER),
        _author(value.get("by", ""), value.get("reason", "")),
    )


def _split(value: Any) -> dict[str, int]:
    if not isinstance(value, dict) or not 1 <= len(value) <= MAX_SPLIT:
        raise InvalidPointerError(f"a split names 1 to {MAX_SPLIT} versions")
    try:
        return {check_name("version", name): _number("weight", weight, 1, MAX_WEIGHT) for name, weight in value.items()}
    except UnsafeNameError as error:
        raise InvalidPointerError(str(error)) from None


def _mode(value: Any) -> SwitchMode:
    try:
        return SwitchMode(value)
    except ValueError:
        raise InvalidPointerError(f"mode {str(value)[:40]!r} is neither exact nor now") from None


def _author(by: Any, reason: Any) -> Author:
    if not by and not reason and isinstance(by, str) and isinstance(reason, str):
        return NOBODY
    if not isinstance(by, str) or not isinstance(reason, str):
        raise InvalidPointerError("by and reason of a timeline entry are texts")
    try:
        return Author(by, reason)
    except ConfigurationError as error:
        raise InvalidPointerError(str(error)) from None


def _number(name: str, value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise InvalidPointerError(f"{name} {str(value)[:40]!r} is not a whole number from {low} to {high}")
    return value
