"""The reader of the demo: follows results while they come, in a thread of its own."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from headrace.demo.labels import top_label
from headrace.demo.scoreboard import Answer, Scoreboard
from producers.outcomes import Outcome
from producers.result_reader import ResultReader
from schemas.records import Result, Status

_POLL_SECONDS = 0.2


class Audience:
    """Reads outcomes from now on and notes them on the scoreboard until it is left.

    What ends its thread early is raised by `check`.
    """

    def __init__(self, reader: ResultReader, scoreboard: Scoreboard, clock: Callable[[], float]) -> None:
        self._reader = reader
        self._scoreboard = scoreboard
        self._clock = clock
        self._stopped = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._follow, name="audience", daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()
        self._reader.close()

    def check(self) -> None:
        """Raise what has ended the reading, if anything has."""
        if self._error is not None:
            raise self._error

    def _follow(self) -> None:
        try:
            while not self._stopped.is_set():
                for outcome in self._reader.poll(_POLL_SECONDS):
                    self._note(outcome)
        except Exception as error:  # noqa: BLE001 - handed to the main thread by `check`
            self._error = error

    def _note(self, outcome: Outcome) -> None:
        if not isinstance(outcome, Result) or outcome.status is not Status.OK:
            self._scoreboard.note_refused(outcome.request_id)
            return
        label, probability = top_label(outcome.output)
        self._scoreboard.note_answer(
            Answer(
                request_id=outcome.request_id,
                label=label,
                probability=probability,
                version=f"{outcome.model} {outcome.version}, epoch {outcome.epoch}",
                partition=outcome.source.partition,
                batch_size=outcome.timings.batch_size,
                arrived_at=self._clock(),
            )
        )
