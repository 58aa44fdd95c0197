"""The proof that versions are monotone per partition and cut where they should be. Pure: records in, a report out.

A first look finds the cuts. Only where they do not hold are the records looked at again, to name every one of them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from producers.audit.findings import Finding, Findings, Kind
from producers.audit.version_facts import NOT_KNOWN, CutTable, Decisions, Met, Partition, find_epoch
from producers.audit.version_survey import PartitionSurvey, VersionSurvey

MAX_KEYS_FOLLOWED = 500_000
"""Keys under splits that nothing is known of; more are not followed, and the report says so."""
Faults = defaultdict[tuple[Partition, int], set[Kind]]


@dataclass(frozen=True)
class CutRow:
    """Where one epoch begins in one partition, and what there is to say about it."""

    partition: Partition
    epoch: int
    versions: tuple[str, ...]
    mode: str
    """`exact`, `now`, or nothing when the decision is not known."""
    records: int
    offset: int
    """Of the first record that met it."""
    timestamp_ms: int
    """Append time of that record, 0 when not known."""
    effective_from_ms: int | None
    due_offset: int | None
    """From which offset on it had to be met: the recorded cut, or the first record at or after the instant."""
    verdict: str


@dataclass(frozen=True)
class VersionProof:
    """All cuts and everything that is wrong with them."""

    rows: tuple[CutRow, ...] = ()
    findings: dict[Kind, Finding] = field(default_factory=dict)
    records: int = 0
    undated: int = 0
    keys_not_followed: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


def prove_versions(read: Callable[[], Iterable[Met]], decisions: Decisions = NOT_KNOWN) -> VersionProof:
    """Check everything. `read` returns the same records at each call, in any order; it is called once or twice."""
    survey, findings, faults = VersionSurvey(decisions), Findings(), Faults(set)
    records = 0
    for met in read():
        records += 1
        survey.enter(met)
        _check_version(met, decisions, findings, faults)
    rules = {partition: _Rules.of(survey, partition, decisions) for partition in survey.partitions}
    suspects = {partition for partition, rule in rules.items() if rule.doubts(survey.partitions[partition])}
    unexplained = {epoch for epoch in survey.has_two_versions() if decisions.find(epoch) is None}
    keys = _Keys(unexplained)
    for met in read() if suspects or unexplained else ():
        if met.partition in suspects:
            for kind, text in rules[met.partition].judge(met):
                findings.add(kind, text)
                faults[met.partition, met.epoch].add(kind)
        keys.follow(met, findings, faults)
    return VersionProof(
        rows=tuple(_list_rows(survey, rules, faults, decisions)),
        findings=dict(findings.by_kind()),
        records=records,
        undated=sum(one.undated for one in survey.partitions.values()),
        keys_not_followed=keys.left_out,
    )


def _check_version(met: Met, decisions: Decisions, findings: Findings, faults: Faults) -> None:
    decision = decisions.find(met.epoch)
    if decision is None or (len(decision.versions) > 1 and not met.is_key_known):
        return
    right = decision.pick(met.split_key)
    if met.version != right:
        findings.add(Kind.MIXED_VERSIONS, f"{met.source} met {met.version} under epoch {met.epoch} instead of {right}")
        faults[met.partition, met.epoch].add(Kind.MIXED_VERSIONS)


@dataclass(frozen=True)
class _Rules:
    """What the records of one partition have to keep to."""

    decisions: Decisions
    observed: CutTable
    due: CutTable
    is_dated: bool

    @classmethod
    def of(cls, survey: VersionSurvey, partition: Partition, decisions: Decisions) -> "_Rules":
        is_dated = not survey.partitions[partition].undated
        return cls(decisions, survey.find_observed(partition), survey.find_due(partition), is_dated)

    def doubts(self, survey: PartitionSurvey) -> bool:
        """Whether a record may break a rule: where all are dated, then the first or the last of its epoch does too."""
        return not self.is_dated or any(
            self.judge(met) for span in survey.spans.values() for met in (span.first, span.last)
        )

    def judge(self, met: Met) -> list[tuple[Kind, str]]:
        """Say what is wrong with one record."""
        offset, found = met.source.offset, []
        reached = find_epoch(self.observed, offset)
        if reached is not None and met.epoch < reached:
            found.append((Kind.WRONG_VERSION, f"{met.source} met epoch {met.epoch} after epoch {reached}"))
        if not self.decisions.entries:
            return found
        if met.epoch > self.decisions.oldest_epoch and self.decisions.find(met.epoch) is None:
            found.append((Kind.UNKNOWN_DECISION, f"{met.source} met epoch {met.epoch}, which nobody decided"))
            return found
        wanted = find_epoch(self.due, offset)
        if wanted is not None and met.epoch < wanted:
            found.append((Kind.LATE_CUT, f"{met.source} met epoch {met.epoch}; {self._describe(wanted)}"))
        elif met.epoch > self._highest_allowed(wanted) and self._can_be_early(met.epoch, wanted):
            found.append((Kind.EARLY_CUT, f"{met.source} met epoch {met.epoch}; {self._describe_own(met)}"))
        return found

    def _highest_allowed(self, wanted: int | None) -> int:
        return max(self.decisions.oldest_epoch, wanted or 0)

    def _can_be_early(self, epoch: int, wanted: int | None) -> bool:
        """An exact cut can lie earlier than it seems when a record there does not say when it was appended."""
        between = (entry for entry in self.decisions.entries if (wanted or 0) < entry.epoch <= epoch)
        return self.is_dated or all(entry.effective_from_ms is None for entry in between)

    def _describe_own(self, met: Met) -> str:
        decision = self.decisions.find(met.epoch)
        is_now = decision is not None and decision.effective_from_ms is None
        if is_now and met.partition not in self.decisions.cuts.get(met.epoch, {}):
            return "no cut of it is recorded"
        return self._describe(met.epoch)

    def _describe(self, epoch: int) -> str:
        cut = next((offset for known, offset in self.due if known >= epoch), None)
        return f"epoch {epoch} begins at offset {cut}" if cut is not None else f"no record reaches epoch {epoch}"


class _Keys:
    """Under a split that nothing is known of, a key meets one version at least."""

    def __init__(self, epochs: set[int]) -> None:
        self._epochs = epochs
        self._versions: dict[tuple[int, int], str] = {}
        self.left_out = 0

    def follow(self, met: Met, findings: Findings, faults: Faults) -> None:
        if met.epoch not in self._epochs or met.key is None:
            return
        # A hash, so that long keys take no more room: one in 10^19 pairs of keys is taken for another.
        key = (met.epoch, hash(met.key))
        before = self._versions.get(key)
        if before is None and len(self._versions) >= MAX_KEYS_FOLLOWED:
            self.left_out += 1
        elif before is None:
            self._versions[key] = met.version
        elif before != met.version:
            text = f"{met.source} met {met.version} under epoch {met.epoch}, another record of its key {before}"
            findings.add(Kind.MIXED_VERSIONS, text)
            faults[met.partition, met.epoch].add(Kind.MIXED_VERSIONS)


def _list_rows(
    survey: VersionSurvey, rules: dict[Partition, _Rules], faults: Faults, decisions: Decisions
) -> Iterable[CutRow]:
    for partition, one in sorted(survey.partitions.items()):
        due = dict(rules[partition].due)
        for epoch, span in sorted(one.spans.items()):
            decision = decisions.find(epoch)
            instant = decision.effective_from_ms if decision is not None else None
            yield CutRow(
                partition=partition,
                epoch=epoch,
                versions=tuple(sorted(span.versions)),
                mode="" if decision is None else "now" if instant is None else "exact",
                records=span.records,
                offset=span.first.source.offset,
                timestamp_ms=span.first.timestamp_ms,
                effective_from_ms=instant,
                due_offset=due.get(epoch),
                verdict=_judge_row(faults[partition, epoch], epoch, rules[partition], decisions),
            )


def _judge_row(kinds: set[Kind], epoch: int, rules: _Rules, decisions: Decisions) -> str:
    if kinds:
        return ", ".join(kind.value.replace("_", " ") for kind in Kind if kind in kinds)
    decision = decisions.find(epoch)
    if decision is None:
        return "monotone"
    if epoch == decisions.oldest_epoch:
        return "proven, oldest kept"
    if decision.effective_from_ms is not None and not rules.is_dated:
        return "not late; append times are missing"
    return "proven"
