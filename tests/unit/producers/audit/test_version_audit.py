from collections.abc import Callable

import pytest
from rich.console import Console

from producers.audit.findings import Kind
from producers.audit.version_audit import KnownDecisions, VersionAudit, VersionReport
from producers.audit.version_facts import Decision, Decisions
from producers.audit.version_rendering import render_version_report
from producers.outcomes import Record
from schemas.records import Position
from schemas.settings import TopicSettings
from tests.unit.producers.audit.audit_builders import DEAD, REQUESTS, RESULTS, dead_letter_record, result_record
from tests.unit.producers.audit.test_audit import FakeAccess

TOPICS = TopicSettings(requests=(REQUESTS,), results=RESULTS, dead_letters=DEAD)
TWO = Decisions(
    tuple(Decision(epoch, frozenset({"v1"}), None, lambda _: "v1") for epoch in (1, 2)),
    {1: {(REQUESTS, 0): 0}, 2: {(REQUESTS, 0): 2}},
)


def run(
    *records: Record, known: KnownDecisions | None = None, look_up: Callable[[], None] | None = None, model: str = "m"
) -> VersionReport:
    def look() -> KnownDecisions:
        if look_up is not None:
            look_up()
        return known or KnownDecisions()

    return VersionAudit(FakeAccess(*records), TOPICS, model, look).run()


def printed(report: VersionReport) -> str:
    console = Console(width=160, record=True)
    console.print(render_version_report(report))
    return " ".join(console.export_text().split())


def test_results_and_dead_letters_of_a_partition_are_one_history() -> None:
    records = (result_record(0, 0), dead_letter_record(1, 0), result_record(2, 1, epoch=2))
    report = run(*records, known=KnownDecisions(TWO, sources=("timeline",)))
    assert report.clean
    assert report.checked == ("outcomes", "timeline")
    assert [(row.epoch, row.offset, row.records, row.due_offset) for row in report.proof.rows] == [
        (1, 0, 2, 0),
        (2, 2, 1, 2),
    ]
    assert "requests[0] 2 v1 now 1 2 - 2 proven" in printed(report)


def test_a_dead_letter_that_went_back_is_found_and_named() -> None:
    report = run(result_record(0, 0, epoch=2), dead_letter_record(1, 0))
    assert not report.clean
    assert "wrong version: 1 requests-0-1 met epoch 1 after epoch 2" in printed(report)
    assert report.to_json()["findings"] == {
        "wrong_version": {"count": 1, "examples": ["requests-0-1 met epoch 1 after epoch 2"]}
    }
    assert report.to_json()["cuts"][0]["verdict"] == "wrong version"


def test_what_comes_after_the_look_at_the_end_is_left_to_the_next_audit() -> None:
    access = FakeAccess(result_record(0, 0))

    def more() -> KnownDecisions:
        access.records = (*access.records, result_record(1, 1, epoch=9))
        return KnownDecisions(TWO)

    report = VersionAudit(access, TOPICS, "m", more).run()
    assert report.clean
    assert report.proof.records == 1


def test_what_is_of_another_model_or_no_outcome_is_counted_apart_however_often_it_is_read() -> None:
    stray = Record(Position(RESULTS, 0, 9), 0, None, b"not json", [])
    report = run(result_record(0, 0, epoch=2), result_record(1, 1), stray)
    assert (report.unreadable, report.proof.records, report.clean) == (1, 2, False)
    report = run(result_record(0, 0), stray, model="another")
    assert (report.other_models, report.unreadable, report.proof.records) == (1, 1, 0)


def test_two_cuts_for_one_switch_are_a_finding() -> None:
    report = run(result_record(0, 0), known=KnownDecisions(TWO, contradictions=("requests-0: epoch 2 ...",)))
    assert {kind: finding.count for kind, finding in report.proof.findings.items()} == {Kind.CUT_TWICE: 1}


@pytest.mark.parametrize("stamp", [1 << 60, 5])
def test_a_name_from_the_topic_cannot_change_the_terminal(stamp: int) -> None:
    record = result_record(0, 0)
    headers = [(name, b"[red]\x1b[2J" if name == "modelversion" else value) for name, value in record.headers]
    value = (record.value or b"").replace(b'"source_timestamp_ms":0', b'"source_timestamp_ms":%d' % stamp)
    text = printed(run(record._replace(headers=headers, value=value)))
    assert "\x1b" not in text
    assert "[red]" in text
