"""Where each epoch begins and ends in each partition. Pure; takes records in any order and keeps cuts, not records.

Two rules need no order. An epoch never goes back exactly when its last offset lies before the first offset of every
later epoch. And the cut that is due lies at the lowest offset to which an entry of that epoch or a later one applies.
"""

import bisect
from collections.abc import Mapping
from dataclasses import dataclass, field

from producers.audit.version_facts import NOT_KNOWN, CutTable, Decisions, Met, Partition, make_table


@dataclass
class Span:
    """The records of one partition that met one epoch."""

    first: Met
    last: Met
    records: int = 0
    versions: set[str] = field(default_factory=set)

    def add(self, met: Met) -> None:
        """Take in one more."""
        self.records += 1
        self.versions.add(met.version)
        if met.source.offset < self.first.source.offset:
            self.first = met
        elif met.source.offset > self.last.source.offset:
            self.last = met


@dataclass
class PartitionSurvey:
    """One partition of requests."""

    spans: dict[int, Span] = field(default_factory=dict)
    """By epoch."""
    reached: dict[int, int] = field(default_factory=dict)
    """Lowest offset of a record that the exact entry of an epoch applies to, and no later exact one."""
    undated: int = 0
    """Records without append time: with them, nobody can say that an exact cut is not early."""


class VersionSurvey:
    """Enter what records met, in any order, then look at `partitions`."""

    def __init__(self, decisions: Decisions = NOT_KNOWN) -> None:
        self._decisions = decisions
        exact = [entry for entry in decisions.entries if entry.effective_from_ms is not None]
        self._instants = [entry.effective_from_ms or 0 for entry in exact]
        self._exact_epochs = [entry.epoch for entry in exact]
        self.partitions: dict[Partition, PartitionSurvey] = {}

    def enter(self, met: Met) -> None:
        """Take in one record."""
        survey = self.partitions.get(met.partition)
        if survey is None:
            survey = self.partitions[met.partition] = PartitionSurvey()
        span = survey.spans.get(met.epoch)
        if span is None:
            span = survey.spans[met.epoch] = Span(met, met)
        span.add(met)
        if not met.timestamp_ms:
            survey.undated += 1
        elif at := bisect.bisect_right(self._instants, met.timestamp_ms):
            epoch, offset = self._exact_epochs[at - 1], met.source.offset
            survey.reached[epoch] = min(survey.reached.get(epoch, offset), offset)

    def find_observed(self, partition: Partition) -> CutTable:
        """Where records first met each epoch, or a later one."""
        return make_table({epoch: span.first.source.offset for epoch, span in self.partitions[partition].spans.items()})

    def find_due(self, partition: Partition) -> CutTable:
        """Where each decision has to begin: by append time for exact ones, by their recorded cut for the others."""
        reached: Mapping[int, int] = self.partitions[partition].reached
        due = {}
        for entry in self._decisions.entries:
            recorded = self._decisions.cuts.get(entry.epoch, {}).get(partition)
            offset = recorded if entry.effective_from_ms is None else reached.get(entry.epoch)
            if offset is not None:
                due[entry.epoch] = offset
        return make_table(due)

    def has_two_versions(self) -> set[int]:
        """Return the epochs, other than 0, that records of more than one version met."""
        versions: dict[int, set[str]] = {}
        for survey in self.partitions.values():
            for epoch, span in survey.spans.items():
                versions.setdefault(epoch, set()).update(span.versions)
        # Epoch 0 is a version that settings name: another deployment may name another one.
        return {epoch for epoch, names in versions.items() if len(names) > 1 and epoch}
