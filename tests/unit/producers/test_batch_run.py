"""One run over a job's rows, against an in-memory Kafka."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from producers.batch_run import BatchRun
from producers.job_journal import JobHeader, JobJournal
from producers.job_options import JobOptions
from producers.publish_frontier import PublishFrontier
from producers.sources.item import Item, ItemError
from schemas.errors import ConfigurationError, PayloadTooLargeError, PublishError, UnavailableError
from schemas.records import Status
from tests.fakes.kafka_pair import KafkaPair, dead_letter, result

OPTIONS = JobOptions(Path("in.jsonl"), Path("out.jsonl"), window=4)


class Clock:
    """A clock that moves a little at every look."""

    def __init__(self, step: float = 0.01) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def items(rows: int, *faulty: int):
    for row in range(rows):
        if row in faulty:
            yield ItemError(row, f"n{row}", "bad")
        else:
            yield Item(row, b"{}", "application/json", f"n{row}")


@pytest.fixture
def job(tmp_path):
    """Open a job of so many rows and build runs over it."""
    journal = JobJournal(tmp_path / "journal").open()

    class Job:
        def begin(self, rows: int) -> None:
            self.state = journal.begin(JobHeader("job", "in", "f", rows, ("requests", "results", "dead"), [], []))

        def run(self, pair: KafkaPair, *, written=(), options=OPTIONS, clock=None) -> BatchRun:
            frontier = PublishFrontier(0, {}, written)
            return BatchRun(
                options,
                journal,
                self.state,
                frontier,
                writer=pair,
                outcomes=pair,
                report=lambda in_flight: None,
                clock=clock or Clock(),
            )

        def lines(self) -> list[dict]:
            journal.sync()
            return [msgspec.json.decode(line) for line in (tmp_path / "journal").read_bytes().splitlines()]

        def answers(self):
            return [journal.read_answer(place) for place in self.state.places]

    yield Job()
    journal.close()


def test_every_row_is_published_once_and_answered(job):
    job.begin(10)
    pair = KafkaPair()
    assert job.run(pair).finish(items(10)) == 10
    assert pair.published == [f"job-{row}" for row in range(10)]
    assert [(answer.row, answer.label, answer.status) for answer in job.answers()] == [
        (row, f"n{row}", "ok") for row in range(10)
    ]


def test_each_kind_of_outcome_becomes_an_answer(job):
    def respond(request_id: str):
        row = int(request_id.removeprefix("job-"))
        if row == 1:
            return dead_letter(request_id)
        return result(request_id, status=Status.EXPIRED, output=None) if row == 2 else result(request_id)

    job.begin(4)
    assert job.run(KafkaPair(respond)).finish(items(4, 3)) == 3
    assert [(answer.status, answer.code) for answer in job.answers()] == [
        ("ok", ""),
        ("rejected", "model_failure"),
        ("expired", "expired"),
        ("unreadable", "unreadable"),
    ]


def test_no_more_rows_are_in_flight_than_the_window_allows(job):
    job.begin(20)
    pair = KafkaPair()
    in_flight: list[int] = []
    pair.on_poll = lambda: in_flight.append(len(pair.pending))
    job.run(pair).finish(items(20))
    assert max(in_flight) == OPTIONS.window


def test_a_written_row_is_waited_for_and_not_published_again(job):
    job.begin(4)
    pair = KafkaPair(pending=[result("job-1"), result("job-3")])
    assert job.run(pair, written={1, 3}).finish(items(4)) == 2
    assert pair.published == ["job-0", "job-2"]
    assert all(answer.status == "ok" for answer in job.answers())


def test_an_answered_row_is_left_alone(job):
    job.begin(3)
    job.run(KafkaPair()).finish(items(3))
    pair = KafkaPair()
    assert job.run(pair).finish(items(3)) == 0
    assert pair.published == []


def test_an_outcome_that_comes_before_its_row_is_read_is_kept(job):
    job.begin(8)
    early = [result(f"job-{row}") for row in range(8)]
    pair = KafkaPair(pending=early)
    run = job.run(pair, written=range(8))
    assert run.finish(items(8)) == 0
    assert [answer.label for answer in job.answers()] == [f"n{row}" for row in range(8)]


def test_a_checkpoint_does_not_pass_outcomes_that_are_only_held_in_memory(job):
    job.begin(8)
    pair = KafkaPair(pending=[result("job-7")])
    job.run(pair, written={7}, clock=Clock(2.0)).finish(items(8))
    lines = job.lines()
    answered = lines.index(next(line for line in lines if line.get("row") == 7))
    before = [line["outcomes"] for line in lines[:answered] if line["type"] == "mark"]
    after = [line["outcomes"] for line in lines[answered:] if line["type"] == "mark"]
    assert before
    assert not any(before)
    assert after[-1] == [["results", 0, 8]]


def test_outcomes_of_others_and_second_outcomes_are_ignored(job):
    job.begin(1)
    others = [result("other-0"), result("job-x"), result("job-9"), result("job-0"), result("job-0")]
    pair = KafkaPair(respond=lambda _: None, pending=others)
    job.run(pair).finish(items(1))
    assert job.state.counts == {"ok": 1}


def test_a_request_that_is_too_large_costs_its_row_only(job):
    job.begin(3)
    pair = KafkaPair(fail=lambda name: PayloadTooLargeError("9 bytes") if name == "job-1" else None)
    job.run(pair).finish(items(3))
    assert [(answer.status, answer.message) for answer in job.answers()] == [
        ("ok", ""),
        ("unreadable", "9 bytes"),
        ("ok", ""),
    ]


def test_a_request_that_could_not_be_written_ends_the_run_and_keeps_the_row_unsettled(job):
    job.begin(3)
    pair = KafkaPair(fail=lambda name: PublishError("gone") if name == "job-1" else None)
    run = job.run(pair)
    with pytest.raises(PublishError, match="gone"):
        run.finish(items(3))
    run.mark()
    assert job.lines()[-1]["settled"] == 1


def test_silence_beyond_the_limit_ends_the_run_with_advice(job):
    job.begin(2)
    options = replace(OPTIONS, stall_seconds=5.0)
    with pytest.raises(UnavailableError, match="no outcome for 5 s while 2 rows wait"):
        job.run(KafkaPair(respond=lambda _: None), options=options, clock=Clock(1.0)).finish(items(2))


def test_an_answer_of_another_model_is_refused(job):
    job.begin(1)
    with pytest.raises(ConfigurationError, match="answered by model echo, not yolo"):
        job.run(KafkaPair(), options=replace(OPTIONS, model="yolo")).finish(items(1))
