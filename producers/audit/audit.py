"""Runs an audit: the sent requests, a reader during, a reader after, the group's offsets and open transactions."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from producers.audit.access import AuditAccess, Edge
from producers.audit.findings import Kind
from producers.audit.ledger import Bounds, Ledger, Offsets, SentRecord
from producers.audit.report import AuditReport
from producers.audit.sent_file import read_sent_file
from producers.audit.version_facts import NOT_KNOWN, Decisions
from producers.audit.watching import Sighting, Watcher, over_after
from producers.outcomes import Outcome, Record, decode_outcome
from schemas.errors import EnvelopeError
from schemas.headers import decode_request
from schemas.records import Position
from schemas.settings import TopicSettings

_RETRY_SECONDS = 0.25


@dataclass(frozen=True)
class AuditOptions:
    """What to audit, and how long to look."""

    sent_file: Path | None = None
    """What was acknowledged to a publisher. Without it, the request topics themselves say what was sent."""
    group: str | None = None
    """A group whose offsets must stand at the end of the request topics."""
    since: Offsets = field(default_factory=dict)
    """Where the audit begins, for topics that are older than what is audited."""
    during_seconds: float = 0.0
    """How long a first reader follows the outcomes before the second reads them all again."""
    decisions: Decisions = NOT_KNOWN
    """What was decided about versions. Without it they are checked as far as outcomes alone tell."""
    open_transaction_seconds: float = 15.0
    """How long a transaction may stay open before it counts as hanging."""


class Audit:
    """One audit of one pipeline. `run` raises UnavailableError, ConfigurationError; what it finds is in the report."""

    def __init__(
        self,
        access: AuditAccess,
        topics: TopicSettings,
        options: AuditOptions | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._access = access
        self._topics = topics
        self._options = options or AuditOptions()
        self._outcome_topics = (topics.results, topics.dead_letters)
        self._clock = clock
        self._sleep = sleep

    def watcher(self) -> Watcher:
        """Make the reader during, for a caller that decides itself when it has seen enough."""
        return Watcher(self._access, self._outcome_topics, self._options.since)

    def run(self, sighting: Sighting | None = None) -> AuditReport:
        """Look at everything once. Give a `sighting` when a reader ran already."""
        if sighting is None and self._options.during_seconds > 0:
            sighting = self.watcher().watch(over_after(self._options.during_seconds, self._clock))
        held_back = self._wait_for_open_transactions()
        ends = self._access.offsets(self._topics.requests, Edge.END)
        ledger = Ledger(Bounds(self._options.since, ends))
        tombstones = self._enter_requests(ledger)
        shown = self._enter_outcomes(ledger)
        if sighting is not None:
            _compare(ledger, sighting, shown)
        committed = self._check_group(ledger, ends)
        ledger.close(committed, self._options.decisions)
        for line in held_back:
            ledger.findings.add(Kind.HANGING, line)
        return self._report(ledger, sighting, tombstones)

    def _wait_for_open_transactions(self) -> list[str]:
        """Return what still holds readers back when the time for it is over; usually nothing."""
        deadline = self._clock() + self._options.open_transaction_seconds
        while True:
            stable = self._access.offsets(self._outcome_topics, Edge.STABLE)
            ends = self._access.offsets(self._outcome_topics, Edge.END)
            held = sorted(partition for partition, end in ends.items() if stable.get(partition, end) < end)
            if not held:
                return []
            if self._clock() >= deadline:
                break
            self._sleep(_RETRY_SECONDS)
        lines = [f"{topic}-{number} is readable up to {stable[topic, number]} only" for topic, number in held]
        return lines + self._access.describe_open_transactions(held)

    def _enter_requests(self, ledger: Ledger) -> int:
        tombstones = 0
        for request in self._requests():
            tombstones += request.tombstone
            ledger.enter_request(request)
        return tombstones

    def _requests(self) -> Iterable[SentRecord]:
        if self._options.sent_file is not None:
            return read_sent_file(self._options.sent_file)
        return map(_sent_record, self._access.read(self._topics.requests, self._options.since))

    def _enter_outcomes(self, ledger: Ledger) -> set[Position]:
        shown = set()
        for record in self._access.read(self._outcome_topics, self._options.since):
            shown.add(record.position)
            outcome = self._decode(ledger, record)
            if outcome is not None:
                ledger.enter_outcome(outcome)
        return shown

    def _decode(self, ledger: Ledger, record: Record) -> Outcome | None:
        try:
            return decode_outcome(record, dead_letters_topic=self._topics.dead_letters)
        except EnvelopeError as error:
            ledger.findings.add(Kind.UNREADABLE, str(error))
            return None

    def _check_group(self, ledger: Ledger, ends: Offsets) -> Offsets | None:
        if self._options.group is None:
            return None
        committed = self._access.committed(self._options.group)
        needed = ledger.next_offsets()
        for (topic, number), end in sorted(ends.items()):
            offset = committed.get((topic, number))
            place = f"{topic}-{number} ends at {end}, {self._options.group} has committed {offset}"
            if offset is not None and offset > end:
                ledger.findings.add(Kind.GROUP_AHEAD, place)
            # Not the end itself: transaction markers may lie behind the last request.
            elif (offset or 0) < needed.get((topic, number), 0):
                ledger.findings.add(Kind.GROUP_BEHIND, place)
        return committed

    def _report(self, ledger: Ledger, sighting: Sighting | None, tombstones: int) -> AuditReport:
        checked = ["sent-file" if self._options.sent_file else "request topics", "outcomes", "open transactions"]
        if sighting is not None:
            checked.append("a reader during")
        if self._options.group is not None:
            checked.append(f"offsets of group {self._options.group}")
        return AuditReport(
            total=ledger.total,
            by_key=dict(ledger.by_key),
            findings=ledger.findings.by_kind(),
            unlisted=ledger.unlisted,
            tombstones=tombstones,
            watched=None if sighting is None else len(sighting.seen),
            group=self._options.group,
            checked=tuple(checked),
        )


def _sent_record(record: Record) -> SentRecord:
    """Read no more of a request than the ledger needs. An envelope that cannot be read is the worker's to refuse."""
    position = record.position
    key = None if record.key is None else record.key.decode(errors="replace")
    try:
        request = decode_request(
            position.topic, position.partition, position.offset, 0, record.key, record.value, record.headers
        )
    except EnvelopeError:
        return SentRecord(position, None, key)
    return SentRecord(position, request.id, key, tombstone=record.value is None)


def _compare(ledger: Ledger, sighting: Sighting, shown: set[Position]) -> None:
    for position in sorted(sighting.seen - shown):
        ledger.findings.add(Kind.UNSTABLE, f"{position} was seen during, and is not there after")
    for position in sorted(place for place in shown - sighting.seen if sighting.covers(place)):
        ledger.findings.add(Kind.UNSTABLE, f"{position} is there after, and was not seen during")
    for position in sighting.repeated:
        ledger.findings.add(Kind.UNSTABLE, f"{position} was shown twice during")
