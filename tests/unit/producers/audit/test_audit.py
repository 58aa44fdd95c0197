from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from producers.audit.access import Edge
from producers.audit.audit import Audit, AuditOptions
from producers.audit.findings import Kind
from producers.audit.ledger import Offsets
from producers.audit.report import AuditReport
from producers.audit.sent_file import format_sent_line
from producers.audit.version_facts import Decision, Decisions
from producers.audit.watching import Sighting, over_after
from producers.outcomes import Record
from schemas.records import Position
from schemas.settings import TopicSettings
from tests.unit.producers.audit.audit_builders import (
    DEAD,
    REQUESTS,
    RESULTS,
    dead_letter_record,
    request_record,
    result_record,
)

TOPICS = TopicSettings(requests=(REQUESTS,), results=RESULTS, dead_letters=DEAD)


class FakeFollower:
    def __init__(self, batches: list[list[Record]]) -> None:
        self._batches = batches
        self._next = {(RESULTS, 0): 0, (DEAD, 0): 0}
        self.closed = False

    def poll(self, timeout_seconds: float) -> list[Record]:
        batch = self._batches.pop(0) if self._batches else []
        for record in batch:
            self._next[record.position.topic, record.position.partition] = record.position.offset + 1
        return batch

    def positions(self) -> dict[tuple[str, int], int]:
        return dict(self._next)

    def close(self) -> None:
        self.closed = True


class FakeAccess:
    """Topics in memory. `stable` are last stable offsets that hold readers back, until `heals_after` looks at them."""

    def __init__(self, *records: Record, stable: Offsets | None = None, heals_after: int | None = None) -> None:
        self.records = records
        self.group: dict[tuple[str, int], int] = {}
        self.followed: list[list[Record]] = []
        self._stable = stable or {}
        self._looks_left = heals_after
        self.ends = {(REQUESTS, 0): 0, (RESULTS, 0): 0, (DEAD, 0): 0}
        for record in records:
            place = (record.position.topic, record.position.partition)
            self.ends[place] = max(self.ends.get(place, 0), record.position.offset + 1)

    def offsets(self, topics: Collection[str], edge: Edge) -> dict[tuple[str, int], int]:
        ends = {place: end for place, end in self.ends.items() if place[0] in topics}
        if edge is Edge.START:
            return dict.fromkeys(ends, 0)
        if edge is Edge.STABLE:
            if self._looks_left is not None:
                self._looks_left -= 1
                if self._looks_left < 0:
                    return ends
            return {place: self._stable.get(place, end) for place, end in ends.items()}
        return ends

    def read(self, topics: Collection[str], since: Offsets) -> Iterator[Record]:
        return (
            record
            for record in self.records
            if record.position.topic in topics
            and record.position.offset >= since.get((record.position.topic, record.position.partition), 0)
        )

    def follow(self, topics: Collection[str], since: Offsets) -> FakeFollower:
        return FakeFollower(self.followed)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        return self.group

    def describe_open_transactions(self, partitions: Collection[tuple[str, int]]) -> list[str]:
        return [f"someone holds {len(partitions)}"]


class FakeClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def run(access: FakeAccess, options: AuditOptions | None = None, sighting: Sighting | None = None) -> AuditReport:
    clock = FakeClock()
    return Audit(access, TOPICS, options, clock=clock, sleep=clock.sleep).run(sighting)


def found(report: AuditReport) -> dict[Kind, int]:
    return {kind: report.count(kind) for kind in Kind if report.count(kind)}


ANSWERED = (request_record(0), request_record(1), result_record(0, 0), dead_letter_record(1, 0))


def test_a_pipeline_that_answered_everything_is_clean() -> None:
    report = run(FakeAccess(*ANSWERED))
    assert report.clean
    assert (report.total.sent, report.total.ok, report.total.dead_letters) == (2, 1, 1)


def test_a_tombstone_among_the_requests_is_counted_and_needs_no_outcome() -> None:
    report = run(FakeAccess(request_record(0, value=None)))
    assert report.clean
    assert report.tombstones == 1


def test_a_request_with_a_broken_envelope_needs_an_outcome_too() -> None:
    broken = request_record(0)._replace(headers=[("ce_specversion", b"9")])
    assert found(run(FakeAccess(broken))) == {Kind.MISSING: 1}


def test_a_record_that_is_no_outcome_is_unreadable() -> None:
    stray = Record(Position(RESULTS, 0, 9), 0, None, b"not json", [])
    assert found(run(FakeAccess(*ANSWERED, stray))) == {Kind.UNREADABLE: 1}


@pytest.mark.parametrize(
    ("committed", "expected"),
    [(2, {}), (1, {Kind.GROUP_BEHIND: 1}), (None, {Kind.GROUP_BEHIND: 1}), (3, {Kind.GROUP_AHEAD: 1})],
)
def test_the_group_must_stand_between_the_last_request_and_the_end(
    committed: int | None, expected: dict[Kind, int]
) -> None:
    access = FakeAccess(*ANSWERED)
    if committed is not None:
        access.group = {(REQUESTS, 0): committed}
    assert found(run(access, AuditOptions(group="g"))) == expected


def test_a_partition_without_records_needs_no_commit() -> None:
    assert run(FakeAccess(), AuditOptions(group="g")).clean


def test_records_before_the_audit_need_no_commit() -> None:
    options = AuditOptions(group="g", since={(REQUESTS, 0): 2, (RESULTS, 0): 1, (DEAD, 0): 1})
    assert run(FakeAccess(*ANSWERED), options).clean


def test_a_transaction_that_stays_open_is_hanging_and_described() -> None:
    report = run(FakeAccess(*ANSWERED, stable={(RESULTS, 0): 0}))
    assert found(report) == {Kind.HANGING: 2}
    assert report.findings[Kind.HANGING].examples == ["results-0 is readable up to 0 only", "someone holds 1"]


def test_a_transaction_that_ends_in_time_is_not_hanging() -> None:
    assert run(FakeAccess(*ANSWERED, stable={(RESULTS, 0): 0}, heals_after=3)).clean


def test_a_reader_during_that_saw_the_same_leaves_nothing_to_find() -> None:
    access = FakeAccess(*ANSWERED)
    access.followed = [[ANSWERED[2]], [], [ANSWERED[3]]]
    audit = Audit(access, TOPICS)
    rounds = iter([False, False, False, True])
    report = audit.run(audit.watcher().watch(lambda: next(rounds)))
    assert report.clean
    assert report.watched == 2


@pytest.mark.parametrize(
    "seen", [frozenset[Position](), frozenset({Position(RESULTS, 0, 0), Position(RESULTS, 0, 1)})], ids=["less", "more"]
)
def test_a_reader_during_that_saw_something_else_is_unstable(seen: frozenset[Position]) -> None:
    sighting = Sighting({(RESULTS, 0): 0}, {(RESULTS, 0): 2}, seen)
    assert found(run(FakeAccess(*ANSWERED), sighting=sighting)) == {Kind.UNSTABLE: 1}


def test_what_the_reader_during_had_not_reached_is_not_compared() -> None:
    assert run(FakeAccess(*ANSWERED), sighting=Sighting({(RESULTS, 0): 0}, {(RESULTS, 0): 0}, frozenset())).clean


def test_a_record_shown_twice_during_is_unstable() -> None:
    access = FakeAccess(*ANSWERED)
    access.followed = [[ANSWERED[2]], [ANSWERED[2]]]
    audit = Audit(access, TOPICS)
    rounds = iter([False, False, True])
    assert found(audit.run(audit.watcher().watch(lambda: next(rounds)))) == {Kind.UNSTABLE: 1}


def test_over_after_turns_true_when_the_time_is_over() -> None:
    clock = FakeClock()
    is_over: Callable[[], bool] = over_after(2.0, clock)
    assert not is_over()
    clock.sleep(2.0)
    assert is_over()


def test_a_sent_file_finds_an_acknowledged_request_that_the_topic_lost(tmp_path: Path) -> None:
    path = tmp_path / "sent.jsonl"
    path.write_bytes(b"".join(format_sent_line(f"r0-{offset}", Position(REQUESTS, 0, offset)) for offset in range(3)))
    report = run(FakeAccess(*ANSWERED), AuditOptions(sent_file=path))
    assert found(report) == {Kind.MISSING: 1}
    assert report.findings[Kind.MISSING].examples == ["requests-0-2"]


def test_with_what_was_decided_the_audit_holds_every_record_to_its_cut() -> None:
    entries = tuple(Decision(epoch, frozenset({"v1"}), None, lambda _: "v1") for epoch in (1, 2))
    cut_at_one = Decisions(entries, {1: {(REQUESTS, 0): 0}, 2: {(REQUESTS, 0): 1}})
    late = (request_record(0), request_record(1), result_record(0, 0), result_record(1, 1))
    assert run(FakeAccess(*late)).clean
    assert found(run(FakeAccess(*late), AuditOptions(decisions=cut_at_one))) == {Kind.LATE_CUT: 1}
    assert run(FakeAccess(*late[:3], result_record(1, 1, epoch=2)), AuditOptions(decisions=cut_at_one)).clean
