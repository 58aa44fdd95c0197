"""What the proof of versions works with: what each record met, what was decided, and where that should begin. Pure."""

import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from producers.outcomes import Outcome
from schemas.records import DeadLetter, Position, sticky_key

Partition = tuple[str, int]
"""Topic and partition number of requests."""
CutTable = tuple[tuple[int, int], ...]
"""First offset under an epoch or a later one, as (epoch, offset): both rise."""


class Met(msgspec.Struct, frozen=True, gc=False):
    """What one record met, by its outcome."""

    source: Position
    timestamp_ms: int
    """Append time of the request, epoch ms; 0 when the outcome does not name it."""
    epoch: int
    version: str
    key: bytes | None
    position: Position
    """Of the outcome itself."""
    is_key_known: bool = True
    """False when the outcome may have lost the key of its request, which a split goes by."""

    @property
    def partition(self) -> Partition:
        """Where the request lies."""
        return (self.source.topic, self.source.partition)

    @property
    def split_key(self) -> bytes:
        """What a split goes by: the key, or else the place of the request."""
        return sticky_key(self.key, self.source.topic, self.source.partition, self.source.offset)


def read_met(outcome: Outcome) -> Met | None:
    """Return what the request of an outcome met; None when that is no version at all."""
    if not outcome.version:
        return None
    is_key_known = outcome.key is not None or not isinstance(outcome, DeadLetter)
    timestamp_ms = max(0, outcome.source_timestamp_ms)
    place = outcome.position
    return Met(outcome.source, timestamp_ms, outcome.epoch, outcome.version, outcome.key, place, is_key_known)


@dataclass(frozen=True)
class Decision:
    """One entry of a timeline, as far as the proof needs it."""

    epoch: int
    versions: frozenset[str]
    effective_from_ms: int | None
    """The instant of an exact switch, epoch ms; None for one whose cuts are recorded."""
    pick: Callable[[bytes], str]
    """The version for a key."""


@dataclass(frozen=True)
class Decisions:
    """What was decided, by rising epoch, and the recorded first offset by epoch and partition. Empty: not known."""

    entries: tuple[Decision, ...] = ()
    cuts: Mapping[int, Mapping[Partition, int]] = field(default_factory=dict)

    @property
    def oldest_epoch(self) -> int:
        """Of the oldest entry that is kept; whatever no entry applies to meets that one."""
        return self.entries[0].epoch

    def find(self, epoch: int) -> Decision | None:
        """Return the entry of an epoch."""
        at = bisect.bisect_left(self.entries, epoch, key=lambda entry: entry.epoch)
        return self.entries[at] if at < len(self.entries) and self.entries[at].epoch == epoch else None


NOT_KNOWN = Decisions()


def make_table(first_offsets: Mapping[int, int]) -> CutTable:
    """Order first offsets by epoch, so that each holds for its epoch or a later one."""
    table: list[tuple[int, int]] = []
    for epoch, offset in sorted(first_offsets.items(), reverse=True):
        if not table or offset < table[-1][1]:
            table.append((epoch, offset))
    return tuple(reversed(table))


def find_epoch(table: CutTable, offset: int) -> int | None:
    """Return the epoch that a table gives an offset; None before its first cut."""
    at = bisect.bisect_right(table, offset, key=lambda cut: cut[1])
    return table[at - 1][0] if at else None
