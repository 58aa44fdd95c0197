"""The audit on a real broker: what it calls clean is clean, and each real fault is found."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer
from typer import Typer
from typer.testing import CliRunner

from headrace.cli.audit_command import register
from producers.audit.audit import Audit, AuditOptions
from producers.audit.findings import Kind
from producers.audit.report import AuditReport
from producers.audit_reader import KafkaAudit
from producers.outcomes import Record
from schemas.settings import TopicSettings
from tests.faults.conftest import Rig
from tests.unit.producers.audit import audit_builders as build


@pytest.fixture
def topics(rig: Rig, unique: str) -> TopicSettings:
    names = TopicSettings(
        requests=(f"{unique}-requests",), results=f"{unique}-results", dead_letters=f"{unique}-dead-letters"
    )
    rig.create_topics(*names.requests, names.results, names.dead_letters)
    return names


@pytest.fixture
def access(rig: Rig) -> Iterator[KafkaAudit]:
    with KafkaAudit(rig.direct) as connected:
        yield connected


def start(rig: Rig, topics: TopicSettings) -> Producer:
    producer = Producer({"bootstrap.servers": rig.stack.bootstrap, "transactional.id": topics.results})
    producer.init_transactions(15)
    return producer


def write(producer: Producer, topic: str, record: Record, source_topic: str) -> None:
    """Write a built record, with the source topic that this test really uses."""
    value = record.value and record.value.replace(b'"requests"', f'"{source_topic}"'.encode())
    headers: list[tuple[str, str | bytes | None]] = []
    for name, data in record.headers:
        headers.append((name, source_topic.encode() if name.endswith("error.topic") else data))
    producer.produce(topic, value, record.key, headers=headers)


def answer(rig: Rig, topics: TopicSettings, *, skip_last: bool = False) -> Producer:
    """Three requests in one transaction; their outcomes in a second, and an aborted attempt between."""
    (requests,) = topics.requests
    producer = start(rig, topics)
    producer.begin_transaction()
    for offset in range(3):
        write(producer, requests, build.request_record(offset), requests)
    producer.commit_transaction(15)
    producer.begin_transaction()
    write(producer, topics.results, build.result_record(0, 0), requests)
    producer.flush(15)
    producer.abort_transaction(15)
    producer.begin_transaction()
    write(producer, topics.results, build.result_record(0, 0), requests)
    write(producer, topics.dead_letters, build.dead_letter_record(1, 0), requests)
    if not skip_last:
        write(producer, topics.results, build.result_record(2, 1), requests)
    producer.commit_transaction(15)
    return producer


def found(report: AuditReport) -> dict[Kind, int]:
    return {kind: report.count(kind) for kind in Kind if report.count(kind)}


def test_a_complete_run_with_an_aborted_attempt_is_clean_to_both_readers(
    rig: Rig, access: KafkaAudit, topics: TopicSettings
) -> None:
    answer(rig, topics)
    report = Audit(access, topics, AuditOptions(during_seconds=1.5)).run()
    assert found(report) == {}
    assert (report.total.sent, report.total.ok, report.total.dead_letters, report.watched) == (3, 2, 1, 3)


def test_a_missing_outcome_is_found(rig: Rig, access: KafkaAudit, topics: TopicSettings) -> None:
    answer(rig, topics, skip_last=True)
    assert found(Audit(access, topics).run()) == {Kind.MISSING: 1}


def test_an_open_transaction_is_found_and_its_owner_named(rig: Rig, access: KafkaAudit, topics: TopicSettings) -> None:
    producer = answer(rig, topics)
    producer.begin_transaction()
    write(producer, topics.results, build.result_record(0, 9), topics.requests[0])
    producer.flush(15)
    report = Audit(access, topics, AuditOptions(open_transaction_seconds=0.5)).run()
    assert found(report) == {Kind.HANGING: 2}
    assert topics.results in report.findings[Kind.HANGING].examples[1]
    producer.abort_transaction(15)
    assert Audit(access, topics).run().clean


def test_a_group_that_has_not_committed_the_end_is_found(rig: Rig, access: KafkaAudit, topics: TopicSettings) -> None:
    answer(rig, topics)
    assert found(Audit(access, topics, AuditOptions(group=f"{topics.results}-group")).run()) == {Kind.GROUP_BEHIND: 1}


def test_the_command_says_clean_or_not_by_its_exit_code_and_starts_where_it_is_told(
    rig: Rig, topics: TopicSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(rig, topics, skip_last=True)
    monkeypatch.setenv("HEADRACE_KAFKA__BOOTSTRAP", rig.stack.bootstrap)
    config = tmp_path / "headrace.yaml"
    config.write_bytes(msgspec.json.encode({"topics": topics.model_dump(mode="json")}))
    app = Typer()
    app.callback()(lambda: None)
    register(app)
    flags = ["audit", "--config", str(config), "--no-group"]

    faulty = CliRunner().invoke(app, [*flags, "--json"])
    assert faulty.exit_code == 1
    assert msgspec.json.decode(faulty.stdout)["findings"]["missing"]["count"] == 1

    offsets = str(tmp_path / "offsets.json")
    assert CliRunner().invoke(app, [*flags, "--save-offsets", offsets]).exit_code == 0
    later = CliRunner().invoke(app, [*flags, "--since-offsets", offsets])
    assert later.exit_code == 0, later.output
    assert "clean" in later.stdout
