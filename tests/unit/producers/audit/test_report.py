from rich.console import Console

from producers.audit.findings import Kind
from producers.audit.ledger import Ledger
from producers.audit.rendering import render_report
from producers.audit.report import AuditReport
from tests.unit.producers.audit.audit_builders import sent


def a_report_with_a_missing_request() -> AuditReport:
    ledger = Ledger()
    ledger.enter_request(sent(0, key="camera [1]"))
    ledger.close()
    return AuditReport(ledger.total, ledger.by_key, ledger.findings.by_kind(), checked=("request topics",))


def test_the_json_report_names_every_kind_and_the_worst_streams() -> None:
    report = a_report_with_a_missing_request()
    spelled = report.to_json()
    assert spelled["clean"] is False
    assert set(spelled["findings"]) == {kind.value for kind in Kind}
    assert spelled["findings"]["missing"] == {"count": 1, "examples": ["requests-0-0"]}
    assert spelled["streams"][0]["key"] == "camera [1]"


def test_the_report_for_people_gives_the_verdict_and_the_examples() -> None:
    console = Console(width=120, record=True)
    console.print(render_report(a_report_with_a_missing_request()))
    text = console.export_text()
    assert "not clean" in text
    assert "requests-0-0" in text
    assert "camera [1]" in text
    assert "checked: request topics" in text


def test_the_report_for_people_says_how_many_streams_it_leaves_out() -> None:
    console = Console(width=120, record=True)
    console.print(render_report(a_report_with_a_missing_request(), streams=0))
    assert "and 1 more streams" in console.export_text()
