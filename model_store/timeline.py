"""Which version answers a record: an epoch-numbered list of decisions, as pure data.

The last entry is the active pointer. A record's version is a function of its append time, so replay picks the same one.
"""

import bisect
import itertools
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec

from model_store.json_codec import decode_json
from schemas.errors import InvalidPointerError, InvalidRecordError, PointerConflictError, UnsafeNameError
from schemas.names import check_name

MAX_ENTRIES = 64
MAX_SPLIT = 16
MAX_TIMELINE_BYTES = 64 * 1024
_MAX_WEIGHT = 1_000_000
_MAX_NUMBER = 1 << 53
_MAX_DEPTH = 8
_FORMAT = 1


@dataclass(frozen=True)
class TimelineEntry:
    """From `effective_from_ms` (epoch ms) on, the versions of `split` answer, in proportion to their whole weights."""

    epoch: int
    split: Mapping[str, int]
    effective_from_ms: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "split", MappingProxyType(dict(self.split)))

    @property
    def heaviest(self) -> str:
        """The version with the largest share: what a worker that serves only one takes."""
        return max(self.split, key=lambda version: self.split[version])

    def pick(self, key: bytes) -> str:
        """Return the version for a key: always the same one under this entry."""
        if len(self.split) == 1:
            return next(iter(self.split))
        versions = sorted(self.split)
        edges = list(itertools.accumulate(self.split[version] for version in versions))
        # Seeded by nothing but the key: raising a canary's share moves only the keys that it gains.
        return versions[bisect.bisect_right(edges, zlib.crc32(key) * edges[-1] >> 32)]


@dataclass(frozen=True)
class Timeline:
    """The decisions of one model, oldest first: epochs rise, times never fall, at most MAX_ENTRIES are kept."""

    entries: tuple[TimelineEntry, ...] = field(default=())

    @property
    def latest(self) -> TimelineEntry | None:
        """The active pointer: the last decision, be its time come or not; None before the first."""
        return self.entries[-1] if self.entries else None

    @property
    def epoch(self) -> int:
        """The epoch of the last decision; 0 before the first."""
        return self.entries[-1].epoch if self.entries else 0

    def at(self, timestamp_ms: int) -> TimelineEntry | None:
        """The decision for a record appended at `timestamp_ms`; the oldest kept one for a record older than it."""
        for entry in reversed(self.entries):
            if entry.effective_from_ms <= timestamp_ms:
                return entry
        return self.entries[0] if self.entries else None

    def with_activation(self, version: str, expected_epoch: int, now_ms: int, floor_epoch: int = 0) -> "Timeline":
        """Return the timeline in which `version` answers alone from `now_ms` on, under the next epoch.

        `floor_epoch` lifts the new epoch above one that workers are known to hold, after a restored or emptied Redis.
        Raises PointerConflictError when the epoch is not `expected_epoch`, UnsafeNameError for the version.
        """
        check_name("version", version)
        if expected_epoch != self.epoch:
            raise PointerConflictError(f"the active epoch is {self.epoch}, not {expected_epoch}: read it again")
        latest = self.entries[-1].effective_from_ms if self.entries else 0
        entry = TimelineEntry(max(self.epoch, floor_epoch) + 1, {version: 1}, max(now_ms, latest))
        return Timeline((*self.entries, entry)[-MAX_ENTRIES:])


def encode_timeline(timeline: Timeline) -> bytes:
    """Write a timeline as JSON."""
    entries = [
        {"epoch": entry.epoch, "effective_from_ms": entry.effective_from_ms, "split": dict(entry.split)}
        for entry in timeline.entries
    ]
    return msgspec.json.encode({"format": _FORMAT, "entries": entries})


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


def _entry(value: Any) -> TimelineEntry:
    if not isinstance(value, dict) or value.keys() != {"epoch", "effective_from_ms", "split"}:
        raise InvalidPointerError("a timeline entry needs exactly epoch, effective_from_ms and split")
    split = value["split"]
    if not isinstance(split, dict) or not 1 <= len(split) <= MAX_SPLIT:
        raise InvalidPointerError(f"a split names 1 to {MAX_SPLIT} versions")
    try:
        weights = {
            check_name("version", name): _number("weight", weight, 1, _MAX_WEIGHT) for name, weight in split.items()
        }
    except UnsafeNameError as error:
        raise InvalidPointerError(str(error)) from None
    return TimelineEntry(
        _number("epoch", value["epoch"], 1, _MAX_NUMBER),
        weights,
        _number("effective_from_ms", value["effective_from_ms"], 0, _MAX_NUMBER),
    )


def _number(name: str, value: Any, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise InvalidPointerError(f"{name} {str(value)[:40]!r} is not a whole number from {low} to {high}")
    return value
