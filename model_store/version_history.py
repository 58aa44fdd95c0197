"""What was decided about a model's versions, for a person: who, when, what, how, and where each partition was cut."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from model_store.timeline import SwitchMode, Timeline, TimelineEntry

Cuts = Mapping[int, Mapping[tuple[str, int], int]]
"""First offset under an epoch, by epoch, then by topic and partition."""


class CutArchive(Protocol):
    """Reads the recorded cuts of a model."""

    def read_cuts(self, model: str) -> Cuts:
        """Return all cuts that are kept. Raises UnavailableError."""


@dataclass(frozen=True)
class HistoryRow:
    """One decision."""

    epoch: int
    decided: str
    """UTC time."""
    by: str
    split: str
    takes_effect: str
    """`now`, or the instant of an exact switch."""
    standing: str
    """active, armed, called off, or nothing for what was replaced."""
    reason: str
    cuts: str
    """`topic[partition]@offset`, one after the other."""


def list_history(timeline: Timeline, cuts: Cuts, now_ms: int) -> list[HistoryRow]:
    """Return a row for each decision that is kept, the newest first."""
    current, called_off = find_current(timeline, now_ms), timeline.list_called_off()
    rows = []
    for entry in reversed(timeline.entries):
        standing = ""
        if entry.epoch in called_off:
            standing = "called off"
        elif entry.is_armed(now_ms):
            standing = "armed"
        elif entry is current:
            standing = "active"
        rows.append(_row(entry, standing, cuts.get(entry.epoch, {})))
    return rows


def find_current(timeline: Timeline, now_ms: int) -> TimelineEntry | None:
    """Return the decision for a record that is appended now: the newest one that is not still to come."""
    for entry in reversed(timeline.entries):
        if not entry.is_armed(now_ms):
            return entry
    return timeline.entries[0] if timeline.entries else None


def describe_split(split: Mapping[str, int]) -> str:
    """Write a split as `v1`, or as `v1 90%, v2 10%`."""
    if len(split) == 1:
        return next(iter(split))
    total = sum(split.values())
    return ", ".join(f"{version} {100 * weight / total:.3g}%" for version, weight in split.items())


def describe_time(epoch_ms: int) -> str:
    """Write epoch ms as UTC, `2030-01-31T12:00:00.000Z`. A number that is no year of a calendar is written as it is."""
    try:
        moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(epoch_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _row(entry: TimelineEntry, standing: str, cuts: Mapping[tuple[str, int], int]) -> HistoryRow:
    return HistoryRow(
        entry.epoch,
        describe_time(entry.at_ms or entry.effective_from_ms),
        entry.author.by or "-",
        describe_split(entry.split),
        describe_time(entry.effective_from_ms) if entry.mode is SwitchMode.EXACT else "now",
        standing,
        entry.author.reason,
        ", ".join(f"{topic}[{partition}]@{offset}" for (topic, partition), offset in sorted(cuts.items())),
    )
