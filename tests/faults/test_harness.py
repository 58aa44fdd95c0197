"""The rig itself, with a responder in place of a worker: what it calls clean, and what it must not."""

from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from producers.audit.findings import Kind
from producers.topics import TopicAdmin
from schemas.records import Request
from schemas.settings import Settings
from tests.fakes.echo_responder import EchoResponder
from tests.faults.conftest import Rig
from tests.faults.harness import FaultRun
from tests.faults.load import Load, LoadShape
from tests.faults.worker_process import wait_until

SHAPE = LoadShape(records_per_second=200, streams=10)


def commit_the_end(run: FaultRun) -> None:
    """Commit for the group what a worker would have committed by now."""
    with TopicAdmin(run.rig.direct) as topics:
        ends = topics.end_offsets(run.topics.requests)
    consumer = Consumer({"bootstrap.servers": run.rig.stack.bootstrap, "group.id": run.group})
    consumer.commit(offsets=[TopicPartition(*place, offset) for place, offset in ends.items()], asynchronous=False)
    consumer.close()


def respond(run: FaultRun, lose: str = "") -> EchoResponder:
    def decide(request: Request) -> str:
        # A probe's id is drawn by chance, and it is waited for.
        is_lost = lose and request.key != b"probe" and request.id.endswith(lose)
        return "ignore" if is_lost else "ok"

    settings = Settings(kafka=run.rig.direct, topics=run.topics)
    return EchoResponder(settings, run.topics.requests[0], decide)


def drive(run: FaultRun, lose: str = "") -> Load:
    """A short load on a responder that does not answer ids which end with `lose`."""
    with respond(run, lose) as responder:
        run.wait_until_answering(30)
        with run.load(SHAPE) as load:
            wait_until(lambda: load.acknowledged >= 120, 30, "120 requests acknowledged")
        wait_until(lambda: len(responder.seen) > load.acknowledged, 30, "all requests seen, and the probe")
    commit_the_end(run)
    return load


def test_a_run_that_answers_everything_is_clean_and_its_pauses_are_measured(
    rig: Rig, unique: str, tmp_path: Path
) -> None:
    with FaultRun(rig, unique, tmp_path) as run:
        load = drive(run)
        outcome = run.finish(load)
    outcome.check()
    assert outcome.report.total.sent == load.acknowledged + 1
    assert outcome.report.watched == load.acknowledged + 1
    assert outcome.acknowledged is not None
    assert outcome.acknowledged.unlisted == 1
    assert load.failures == []
    assert 0 < outcome.longest_pause_seconds <= load.end_seconds - load.begin_seconds


def test_a_run_that_loses_requests_is_not_clean(rig: Rig, unique: str, tmp_path: Path) -> None:
    with FaultRun(rig, unique, tmp_path) as run:
        outcome = run.finish(drive(run, lose="7"))
    assert outcome.report.count(Kind.MISSING) >= 12
    assert outcome.report.count(Kind.GROUP_AHEAD) == outcome.report.count(Kind.MISSING)
