"""One run over a job's rows: publish within the window, read outcomes, journal them, mark the progress."""

import threading
import time
from collections.abc import Callable
from typing import Protocol, Unpack

from producers.job_journal import Answer, JobJournal, JournalState
from producers.job_options import JobOptions
from producers.job_rows import answer_of, parse_row, request_id_of, unreadable
from producers.outcomes import Outcome
from producers.publish_frontier import Offsets, PublishFrontier
from producers.request_attributes import Attributes, Delivery
from producers.sources.item import Item, ItemError, Source
from schemas.errors import ConfigurationError, InvalidRecordError, PipelineError, UnavailableError

_BURST_ROWS = 256
"""Rows taken from the input between two looks at the outcomes."""
_IDLE_SECONDS = 0.2
_MARK_SECONDS = 1.0


class RequestWriter(Protocol):
    """What a run needs of a publisher."""

    def publish(self, payload: bytes, *, content_type: str, **attributes: Unpack[Attributes]) -> str:
        """Hand over one request; `on_delivery` is called once."""


class OutcomeSource(Protocol):
    """What a run needs of a result reader."""

    def poll(self, timeout_seconds: float) -> list[Outcome]:
        """Read the outcomes there are."""

    def positions(self) -> Offsets:
        """Tell where reading would go on."""


class BatchRun:
    """Drives the rows of one job to their answers. Every row ends with exactly one answer in the journal."""

    def __init__(  # noqa: PLR0913 - the parts that a run ties together
        self,
        options: JobOptions,
        journal: JobJournal,
        state: JournalState,
        frontier: PublishFrontier,
        *,
        writer: RequestWriter,
        outcomes: OutcomeSource,
        report: Callable[[int], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._journal = journal
        self._state = state
        self._frontier = frontier
        self._writer = writer
        self._outcomes = outcomes
        self._report = report
        self._clock = clock
        self._waiting: dict[int, str] = {}
        self._early: dict[int, Outcome] = {}
        self._safe_positions = dict(state.outcomes)
        self._failures: list[tuple[int, PipelineError]] = []
        self._failures_lock = threading.Lock()
        self._marked = self._heard = 0.0
        self.published = 0
        """Rows that this run handed to the client."""

    def finish(self, source: Source) -> int:
        """Answer every row and return how many were published.

        Raises UnavailableError when nothing is heard for `stall_seconds`, and the error of a request that could not be
        written.
        """
        self._marked = self._heard = self._clock()
        while True:
            exhausted = self._fill(source)
            busy = not exhausted and len(self._waiting) < self._options.window
            self._take(self._outcomes.poll(0.0 if busy else _IDLE_SECONDS))
            self._settle_failures()
            self._keep_time()
            if exhausted and not self._waiting:
                return self.published

    def _fill(self, source: Source) -> bool:
        for _ in range(_BURST_ROWS):
            if len(self._waiting) >= self._options.window:
                return False
            entry = next(source, None)
            if entry is None:
                return True
            self._accept(entry)
        return False

    def _accept(self, entry: Item | ItemError) -> None:
        row = entry.sequence
        if self._state.is_answered(row):
            self._frontier.settle(row)
        elif isinstance(entry, ItemError):
            self._journal.answer(unreadable(entry))
            self._frontier.settle(row)
        else:
            self._waiting[row] = entry.label
            if not self._frontier.is_settled(row):
                self._publish(entry)
            early = self._early.pop(row, None)
            if early is not None:
                self._answer(answer_of(early, row, entry.label))

    def _publish(self, item: Item) -> None:
        row = item.sequence
        self._frontier.send(row)
        try:
            self._writer.publish(
                item.payload,
                content_type=item.content_type,
                request_id=request_id_of(self._state.header.job_id, row),
                sequence=row,
                deadline_seconds=self._options.deadline_seconds,
                on_delivery=lambda delivery: self._on_delivery(row, delivery),
            )
        except InvalidRecordError as error:
            self._refuse(row, error)
        else:
            self.published += 1

    def _on_delivery(self, row: int, delivery: Delivery) -> None:
        """Runs in the client's thread."""
        if delivery.error is None:
            self._frontier.settle(row, delivery.position)
        else:
            with self._failures_lock:
                self._failures.append((row, delivery.error))

    def _settle_failures(self) -> None:
        with self._failures_lock:
            failures, self._failures = self._failures, []
        for row, error in failures:
            if not isinstance(error, InvalidRecordError):
                raise error
            self._refuse(row, error)

    def _refuse(self, row: int, error: InvalidRecordError) -> None:
        self._answer(unreadable(ItemError(row, self._waiting.get(row, str(row)), str(error))))
        self._frontier.settle(row)

    def _answer(self, answer: Answer) -> None:
        self._journal.answer(answer)
        self._waiting.pop(answer.row, None)

    def _take(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            row = parse_row(self._state.header.job_id, outcome.request_id)
            if row is None or row >= self._state.header.rows or self._state.is_answered(row):
                continue
            self._heard = self._clock()
            if self._options.model and outcome.model not in ("", self._options.model):
                raise ConfigurationError(
                    f"row {row} was answered by model {outcome.model}, not {self._options.model}: is the right request"
                    " topic given?"
                )
            if row in self._waiting:
                self._answer(answer_of(outcome, row, self._waiting[row]))
            else:
                self._early[row] = outcome

    def _keep_time(self) -> None:
        now = self._clock()
        self._report(len(self._waiting))
        if now - self._marked >= _MARK_SECONDS:
            self.mark()
        stall = self._options.stall_seconds
        if stall is not None and self._waiting and now - self._heard > stall:
            raise UnavailableError(
                f"no outcome for {stall:g} s while {len(self._waiting)} rows wait: is a worker running? Run the same"
                " command again to go on"
            )

    def mark(self) -> None:
        """Write a checkpoint. Outcomes that came before their row was read are not behind it."""
        if not self._early:
            self._safe_positions = self._outcomes.positions()
        self._journal.mark(self._frontier.mark(), self._safe_positions)
        self._marked = self._clock()
