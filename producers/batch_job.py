"""The batch half: publish every row of an input, wait for every outcome, write them in input order.

A job survives Ctrl-C and crashes without paying twice. Its journal knows the rows that are surely written and the
answers that came; on a later run the request topic itself says which of the unsure rows were written after all.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from producers.batch_input import BatchInput
from producers.batch_output import check_output, rejects_path, write_output
from producers.batch_progress import Progress, Summary, count_by_kind, measure_progress
from producers.batch_run import BatchRun
from producers.job_journal import Answer, JobHeader, JobJournal, JournalState, pack_offsets, unpack_offsets
from producers.job_options import JobOptions
from producers.job_rows import parse_row
from producers.kafka_publisher import Publisher, PublisherOptions
from producers.publish_frontier import Offsets, PublishFrontier, choose_scan_start
from producers.record_reader import RecordReader
from producers.record_size import SizeLimits
from producers.request_ids import new_request_id
from producers.result_reader import ResultReader
from producers.sources.rows import RowOptions
from producers.topics import TopicAdmin
from schemas.errors import ConfigurationError
from schemas.settings import Settings

_SCAN_STALL_SECONDS = 30.0
_SOURCE = "headrace/batch"


class BatchJob:
    """One job. `run` does all of it; interrupting `run` at any point leaves a job that the same call resumes."""

    def __init__(
        self,
        settings: Settings,
        options: JobOptions,
        *,
        on_progress: Callable[[Progress], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._options = options
        self._on_progress = on_progress
        self._clock = clock
        self._topic = options.topic or settings.topics.least_urgent
        rows = RowOptions(settings.limits.payload_bytes, options.id_column, options.payload_column)
        self._input = BatchInput(options.input, rows)

    @property
    def journal_path(self) -> Path:
        """Where the job's journal lies while the job is not finished."""
        output = self._options.output
        return output.with_name(f".{output.name}.journal")

    def run(self) -> Summary:
        """Run the job, or what is left of it.

        Raises ConfigurationError when it cannot be run or resumed, PublishError and UnavailableError when Kafka fails;
        after those the job can be resumed.
        """
        started = self._clock()
        output = self._options.output
        check_output(output, (self.journal_path, rejects_path(output)), self._options.input)
        if output.exists() and not self.journal_path.exists() and not self._options.restart:
            raise ConfigurationError(f"output {output} exists already; use --restart to replace it")
        rows, fingerprint = self._input.count(), self._input.fingerprint()
        journal = JobJournal(self.journal_path).open(restart=self._options.restart)
        try:
            state = journal.state
            if state is None:
                state = journal.begin(self._new_header(rows, fingerprint))
            self._check_same(state.header, fingerprint)
            before = state.answered
            published = self._answer_all(journal, state, started) if before < rows else 0
            write_output(_answers(journal, state), output)
            journal.remove()
        finally:
            journal.close()
        return self._summarise(state, published, before, self._clock() - started)

    def _new_header(self, rows: int, fingerprint: str) -> JobHeader:
        topics = self._settings.topics
        outputs = (topics.results, topics.dead_letters)
        with TopicAdmin(self._settings.kafka) as admin:
            requests = admin.end_offsets([self._topic])
        with ResultReader(self._settings.kafka, *outputs) as reader:
            outcomes = reader.positions()
        return JobHeader(
            job_id=new_request_id().replace("-", ""),
            input=str(self._options.input),
            fingerprint=fingerprint,
            rows=rows,
            topics=(self._topic, *outputs),
            request_starts=pack_offsets(requests),
            outcome_starts=pack_offsets(outcomes),
        )

    def _check_same(self, header: JobHeader, fingerprint: str) -> None:
        topics = (self._topic, self._settings.topics.results, self._settings.topics.dead_letters)
        if header.topics != topics:
            raise ConfigurationError(
                f"the unfinished job in {self.journal_path} uses the topics {', '.join(header.topics)}, not"
                f" {', '.join(topics)}; use --restart to begin anew"
            )
        if header.fingerprint != fingerprint:
            raise ConfigurationError(
                f"batch input {self._options.input} (or a column option) changed since the unfinished job in"
                f" {self.journal_path} began: its answers would be mixed; use --restart to begin anew"
            )

    def _answer_all(self, journal: JobJournal, state: JournalState, started: float) -> int:
        frontier = self._find_frontier(state)
        topics, kafka = self._settings.topics, self._settings.kafka
        options = PublisherOptions(limits=SizeLimits.of(self._settings.limits))
        before = state.answered

        def report(in_flight: int) -> None:
            if self._on_progress is not None:
                seconds = self._clock() - started
                rows = state.header.rows
                self._on_progress(
                    measure_progress(
                        state.counts, rows=rows, in_flight=in_flight, answered_before=before, seconds=seconds
                    )
                )

        reader = ResultReader(kafka, topics.results, topics.dead_letters, start=state.outcomes)
        publisher = Publisher(kafka, self._topic, source=_SOURCE, options=options)
        with reader:
            self._refuse_gap(reader.lost, "result and dead-letter topics")
            publisher.start()
            run = BatchRun(
                self._options,
                journal,
                state,
                frontier,
                writer=publisher,
                outcomes=reader,
                report=report,
                clock=self._clock,
            )
            try:
                return run.finish(self._input.read())
            finally:
                publisher.close()
                run.mark()

    def _find_frontier(self, state: JournalState) -> PublishFrontier:
        """Ask the request topic which of the unsure rows were written."""
        starts = unpack_offsets(state.header.request_starts)
        settled, positions = choose_scan_start(state.marks, starts)
        if not state.marks and state.answered == 0 and self._is_untouched(starts):
            return PublishFrontier(settled, positions)
        written = set(self._scan(state.header.job_id, positions))
        written.update(row for row in range(settled, state.header.rows) if state.is_answered(row))
        return PublishFrontier(settled, positions, written)

    def _is_untouched(self, starts: Offsets) -> bool:
        with TopicAdmin(self._settings.kafka) as admin:
            return admin.end_offsets([self._topic]) == starts

    def _scan(self, job_id: str, positions: Offsets) -> Iterator[int]:
        kafka = self._settings.kafka
        with TopicAdmin(kafka) as admin:
            ends = admin.end_offsets([self._topic])
        # A request is written as soon as it is in the log; no transaction hides it.
        with RecordReader(kafka, [self._topic], start=positions, isolation="read_uncommitted") as reader:
            self._refuse_gap(reader.lost, f"request topic {self._topic}")
            for record in reader.read_until(ends, timeout_seconds=_SCAN_STALL_SECONDS):
                row = parse_row(job_id, dict(record.headers).get("ce_id"))
                if row is not None:
                    yield row
            self._refuse_gap(reader.unreadable, f"request topic {self._topic}")

    def _refuse_gap(self, lost: int, where: str) -> None:
        if lost:
            raise ConfigurationError(
                f"{lost} records of the {where} were deleted or cannot be read since this job stopped: what became of"
                " its rows cannot be told any more; use --restart to begin anew"
            )

    def _summarise(self, state: JournalState, published: int, before: int, seconds: float) -> Summary:
        ok, expired, rejected = count_by_kind(state.counts)
        rate = (state.answered - before) / seconds if seconds > 0 else 0.0
        output = self._options.output
        return Summary(state.header.rows, ok, expired, rejected, published, seconds, rate, output, rejects_path(output))


def _answers(journal: JobJournal, state: JournalState) -> Iterator[Answer]:
    for place in state.places:
        yield journal.read_answer(place)
