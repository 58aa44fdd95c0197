"""The ledger: what was sent against what came back. Pure; outcomes are entered in the order of their own offsets.

A request is known by its position. Its id is compared too, but two requests may carry one id.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from producers.audit.findings import Findings, Kind
from producers.audit.version_facts import NOT_KNOWN, Decisions, Met, read_met
from producers.audit.version_proof import VersionProof, prove_versions
from producers.outcomes import Outcome
from schemas.records import Position, Result, Status

Partition = tuple[str, int]
Offsets = Mapping[Partition, int]


class SentRecord(msgspec.Struct, frozen=True, gc=False):
    """One request that the broker acknowledged. `id` is None when its envelope cannot be read."""

    position: Position
    id: str | None
    key: str | None = None
    tombstone: bool = False


@dataclass
class Counts:
    """What became of the requests of one stream, or of all."""

    sent: int = 0
    ok: int = 0
    expired: int = 0
    dead_letters: int = 0
    missing: int = 0
    doubled: int = 0
    out_of_order: int = 0


@dataclass
class _Source:
    """One source partition: its requests by offset, and what each met that has its outcome (None: no version)."""

    sent: dict[int, SentRecord] = field(default_factory=dict)
    met: dict[int, Met | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Bounds:
    """Which source positions this audit is about: from `since`, to `ends` where records can exist at all."""

    since: Offsets = field(default_factory=dict)
    ends: Offsets | None = None
    """None when not known: then every request must have been entered before its outcome."""


class Ledger:
    """Enter all requests, then all outcomes, then `close` once."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self._bounds = bounds or Bounds()
        self._sources: defaultdict[Partition, _Source] = defaultdict(_Source)
        self._last: dict[tuple[Partition, Partition], int] = {}
        self._ids_left: Counter[str] = Counter()
        self.findings = Findings()
        self.total = Counts()
        self.by_key: defaultdict[str | None, Counts] = defaultdict(Counts)
        self.unlisted = 0
        """Outcomes of requests that exist but were not entered: another publisher's."""

    def enter_request(self, record: SentRecord) -> None:
        """Enter one request. A position entered twice counts once."""
        source = self._sources[record.position.topic, record.position.partition]
        if record.position.offset in source.sent or record.position.offset < self._since(record.position):
            return
        source.sent[record.position.offset] = record
        if record.id is not None:
            self._ids_left[record.id] += 1
        for counts in self._counts(record.key):
            counts.sent += 1

    def enter_outcome(self, outcome: Outcome) -> None:
        """Enter one outcome; those of one partition in the order of their offsets."""
        if outcome.source.offset < self._since(outcome.source):
            return
        source = self._sources[outcome.source.topic, outcome.source.partition]
        request = source.sent.get(outcome.source.offset)
        if request is None:
            self._enter_stranger(outcome)
            return
        if outcome.source.offset in source.met:
            self._double(request, outcome)
            return
        source.met[outcome.source.offset] = read_met(outcome)
        self._check_id(request, outcome)
        self._check_order(request, outcome)
        self._count(request, outcome)

    def close(self, committed: Offsets | None = None, decisions: Decisions = NOT_KNOWN) -> VersionProof:
        """Find what is missing, wrong versions and, given a group's offsets, commits without an outcome.

        Returns the proof of the versions; its findings are among the ledger's.
        """
        for partition, source in sorted(self._sources.items()):
            self._find_missing(partition, source, committed or {})
        proof = prove_versions(self._list_met, decisions)
        self.findings.take_over(proof.findings)
        return proof

    def _list_met(self) -> Iterator[Met]:
        for source in self._sources.values():
            yield from (met for _, met in sorted(source.met.items()) if met is not None)

    def next_offsets(self) -> dict[Partition, int]:
        """Tell, by source partition, the offset behind the last request entered."""
        return {partition: max(source.sent) + 1 for partition, source in self._sources.items() if source.sent}

    def _since(self, position: Position) -> int:
        return self._bounds.since.get((position.topic, position.partition), 0)

    def _counts(self, key: str | None) -> tuple[Counts, Counts]:
        return self.total, self.by_key[key]

    def _enter_stranger(self, outcome: Outcome) -> None:
        ends = self._bounds.ends
        if ends is not None and outcome.source.offset < ends.get((outcome.source.topic, outcome.source.partition), 0):
            self.unlisted += 1
            return
        self.findings.add(Kind.UNKNOWN, f"{outcome.position} answers {outcome.source}, which was never sent")

    def _double(self, request: SentRecord, outcome: Outcome) -> None:
        self.findings.add(Kind.DOUBLED, f"{outcome.position} answers {outcome.source} again")
        for counts in self._counts(request.key):
            counts.doubled += 1

    def _check_id(self, request: SentRecord, outcome: Outcome) -> None:
        if request.id is None:
            return
        if outcome.request_id == request.id:
            self._ids_left[request.id] -= 1
            return
        self.findings.add(
            Kind.UNKNOWN, f"{outcome.position} answers {outcome.source} under another id than the request's"
        )
        if self._ids_left.get(outcome.request_id) == 0:
            self.findings.add(Kind.DOUBLED, f"{outcome.position} is one outcome too many under its id")

    def _check_order(self, request: SentRecord, outcome: Outcome) -> None:
        stream = (
            (outcome.position.topic, outcome.position.partition),
            (outcome.source.topic, outcome.source.partition),
        )
        last = self._last.get(stream, -1)
        if outcome.source.offset > last:
            self._last[stream] = outcome.source.offset
            return
        self.findings.add(Kind.OUT_OF_ORDER, f"{outcome.position} answers {outcome.source} after offset {last}")
        for counts in self._counts(request.key):
            counts.out_of_order += 1

    def _count(self, request: SentRecord, outcome: Outcome) -> None:
        for counts in self._counts(request.key):
            if not isinstance(outcome, Result):
                counts.dead_letters += 1
            elif outcome.status is Status.OK:
                counts.ok += 1
            else:
                counts.expired += 1

    def _find_missing(self, partition: Partition, source: _Source, committed: Offsets) -> None:
        for offset, request in sorted(source.sent.items()):
            if offset in source.met or request.tombstone:
                continue
            self.findings.add(Kind.MISSING, str(request.position))
            if offset < committed.get(partition, 0):
                self.findings.add(Kind.GROUP_AHEAD, f"{request.position} has no outcome and will not be read again")
            for counts in self._counts(request.key):
                counts.missing += 1
