"""The books of the demo: the audit's ledger, a row per stream."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from producers.audit.ledger import Counts, Ledger, SentRecord
from producers.outcomes import Outcome


@dataclass(frozen=True)
class StreamBook:
    """One stream's counts. `results` holds the expired ones too."""

    name: str
    sent: int
    results: int
    dead_letters: int
    missing: int
    doubled: int
    out_of_order: int


@dataclass(frozen=True)
class Books:
    """All streams, and how often each thing went wrong that an audit can find; nothing when all is well."""

    streams: Sequence[StreamBook]
    findings: Mapping[str, int]

    @property
    def is_clean(self) -> bool:
        """Each request has exactly one outcome, in order, of a version that never went back, and nothing else came."""
        return not self.findings


def balance(sent: Mapping[str, Iterable[SentRecord]], outcomes: Iterable[Outcome]) -> Books:
    """Balance each stream's acknowledged requests against all outcomes, which come in order per partition of theirs."""
    ledger = Ledger()
    for records in sent.values():
        for record in records:
            ledger.enter_request(record)
    for outcome in outcomes:
        ledger.enter_outcome(outcome)
    ledger.close()
    streams = [_book(name, ledger.by_key[name]) for name in sent]
    return Books(streams, {kind.value: finding.count for kind, finding in ledger.findings.by_kind().items()})


def _book(name: str, counts: Counts) -> StreamBook:
    return StreamBook(
        name=name,
        sent=counts.sent,
        results=counts.ok + counts.expired,
        dead_letters=counts.dead_letters,
        missing=counts.missing,
        doubled=counts.doubled,
        out_of_order=counts.out_of_order,
    )
