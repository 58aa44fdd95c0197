"""Which entry of the timeline a record meets: a function of its append time, its offset and the recorded cuts.

Nothing else decides, so a rebalance, a restart and a replay find the same entry again. Within a partition it never
turns back, whatever the broker's clock does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from model_store.timeline import SwitchMode, Timeline, TimelineEntry


def choose_entry(
    timeline: Timeline, cuts: Mapping[int, int], floor_epoch: int, offset: int, timestamp_ms: int
) -> TimelineEntry | None:
    """Return the entry for one record of a partition.

    `cuts` has the recorded first offset of the partition under an epoch; a `now` entry without one applies to nothing
    yet. `floor_epoch` is the highest epoch that a lower offset of the partition met, 0 for none. The entry with the
    highest epoch that applies is taken, but none below the floor, and the oldest kept when none applies. None: there is
    no entry, or none that reaches the floor, and the record has to wait until the timeline was read again.
    """
    oldest_allowed: TimelineEntry | None = None
    for entry in reversed(timeline.entries):
        if _applies(entry, cuts, offset, timestamp_ms):
            return entry if entry.epoch >= floor_epoch else oldest_allowed
        if entry.epoch < floor_epoch:
            return oldest_allowed
        oldest_allowed = entry
    return oldest_allowed


@dataclass
class PartitionVersions:
    """The cuts and the floor of one partition. Feed it the partition's records in offset order."""

    cuts: dict[int, int] = field(default_factory=dict)
    """First offset under an epoch, for each `now` entry whose cut is recorded."""
    floor_epoch: int = 0
    """The highest epoch that a record has met."""

    def meet(self, timeline: Timeline, offset: int, timestamp_ms: int) -> TimelineEntry | None:
        """Return the entry for the next record and raise the floor to it; None as :func:`choose_entry`."""
        entry = choose_entry(timeline, self.cuts, self.floor_epoch, offset, timestamp_ms)
        if entry is not None:
            self.floor_epoch = max(self.floor_epoch, entry.epoch)
        return entry

    def find_uncut_epoch(self, timeline: Timeline) -> int | None:
        """Return the epoch whose cut the partition's owner has to record next, None when there is none.

        That is the newest `now` entry at most: from its cut on the earlier ones apply to nothing.
        """
        for entry in reversed(timeline.entries):
            if entry.mode is SwitchMode.NOW:
                is_due = entry.epoch > self.floor_epoch and entry.epoch not in self.cuts
                return entry.epoch if is_due else None
        return None


def _applies(entry: TimelineEntry, cuts: Mapping[int, int], offset: int, timestamp_ms: int) -> bool:
    if entry.mode is SwitchMode.EXACT:
        return timestamp_ms >= entry.effective_from_ms
    cut = cuts.get(entry.epoch)
    return cut is not None and offset >= cut
