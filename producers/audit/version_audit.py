"""Runs the proof of versions against the outcome topics. A thin driver: what decides is in `version_proof.py`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from producers.audit.access import AuditAccess, Edge
from producers.audit.findings import Finding, Kind
from producers.audit.ledger import Offsets
from producers.audit.version_facts import NOT_KNOWN, Decisions, Met, read_met
from producers.audit.version_proof import CutRow, VersionProof, prove_versions
from producers.outcomes import decode_outcome
from schemas.errors import EnvelopeError
from schemas.settings import TopicSettings


@dataclass(frozen=True)
class KnownDecisions:
    """What is known of a model's decisions, and what is wrong with what is recorded of them."""

    decisions: Decisions = NOT_KNOWN
    contradictions: tuple[str, ...] = ()
    """Two cuts for one switch and partition."""
    sources: tuple[str, ...] = ()
    """Where it comes from, in words."""


@dataclass(frozen=True)
class VersionReport:
    """What an audit of versions came to."""

    model: str
    proof: VersionProof
    unversioned: int = 0
    """Outcomes of requests that met no version."""
    other_models: int = 0
    unreadable: int = 0
    checked: tuple[str, ...] = field(default=())

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return self.proof.clean

    def to_json(self) -> dict[str, Any]:
        """Spell the report as plain JSON values."""
        proof = self.proof
        counted = {"records": proof.records, "undated": proof.undated, "keys_not_followed": proof.keys_not_followed}
        mine = {"unversioned": self.unversioned, "other_models": self.other_models, "unreadable": self.unreadable}
        return {
            "clean": self.clean,
            "model": self.model,
            "checked": list(self.checked),
            **counted,
            **mine,
            "findings": {
                kind.value: {"count": finding.count, "examples": list(finding.examples)}
                for kind, finding in proof.findings.items()
            },
            "cuts": [_row_to_json(row) for row in proof.rows],
        }


class VersionAudit:
    """One audit of what one model answered. Workers may go on: it looks at what is there when it begins."""

    def __init__(
        self, access: AuditAccess, topics: TopicSettings, model: str, look_up: Callable[[], KnownDecisions]
    ) -> None:
        """`look_up` reads timeline and cuts. It is called after the end is known, so nothing is newer than they are."""
        self._access = access
        self._outcome_topics = (topics.results, topics.dead_letters)
        self._dead_letters = topics.dead_letters
        self._model = model
        self._look_up = look_up
        self._unversioned = self._other_models = self._unreadable = 0

    def run(self) -> VersionReport:
        """Read every outcome once, and again where something is wrong. Raises UnavailableError."""
        ends = self._access.offsets(self._outcome_topics, Edge.STABLE)
        known = self._look_up()
        proof = prove_versions(lambda: self._read(ends), known.decisions)
        if known.contradictions:
            finding = Finding()
            for text in known.contradictions:
                finding.add(text)
            proof = replace(proof, findings={**proof.findings, Kind.CUT_TWICE: finding})
        return VersionReport(
            self._model, proof, self._unversioned, self._other_models, self._unreadable, ("outcomes", *known.sources)
        )

    def _read(self, ends: Offsets) -> Iterator[Met]:
        self._unversioned = self._other_models = self._unreadable = 0
        for record in self._access.read(self._outcome_topics, {}):
            place = record.position
            if place.offset >= ends.get((place.topic, place.partition), 0):
                continue
            try:
                outcome = decode_outcome(record, dead_letters_topic=self._dead_letters)
            except EnvelopeError:
                self._unreadable += 1
                continue
            met = read_met(outcome)
            if met is None:
                self._unversioned += 1
            elif outcome.model != self._model:
                self._other_models += 1
            else:
                yield met


def _row_to_json(row: CutRow) -> Mapping[str, Any]:
    topic, partition = row.partition
    return {
        "topic": topic,
        "partition": partition,
        "epoch": row.epoch,
        "versions": list(row.versions),
        "mode": row.mode or None,
        "records": row.records,
        "offset": row.offset,
        "timestamp_ms": row.timestamp_ms or None,
        "effective_from_ms": row.effective_from_ms,
        "due_offset": row.due_offset,
        "verdict": row.verdict,
    }
