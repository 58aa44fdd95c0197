"""A steady load with a ledger: so many records a second, over so many streams, each acknowledged record noted down."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from producers.audit.sent_file import format_sent_line
from producers.kafka_publisher import Publisher
from producers.request_attributes import Delivery
from schemas.errors import PipelineError
from schemas.records import JSON
from schemas.settings import KafkaSettings


def numbers_row(number: int) -> bytes:
    """A JSON list of 256 numbers, about 1 kB, that the example model takes; each request's own."""
    return b"[" + b",".join(b"%d.5" % ((number + place) % 10) for place in range(256)) + b"]"


@dataclass(frozen=True)
class LoadShape:
    """What is sent. `payload` makes the body of the nth request."""

    records_per_second: float = 500.0
    streams: int = 50
    payload: Callable[[int], bytes] = numbers_row
    content_type: str = JSON
    deadline_seconds: Callable[[int], float | None] = lambda _: None
    """How long the nth request is of use; None: for ever."""


class Load:
    """Publishes from a thread of its own between `start` and `stop`; `stop` flushes and closes the sent-file.

    A context manager. `begin_seconds` and `end_seconds` are epoch seconds of the first and last send.
    """

    def __init__(self, kafka: KafkaSettings, topic: str, sent_file: Path, shape: LoadShape | None = None) -> None:
        self.sent_file = sent_file
        self.begin_seconds = self.end_seconds = 0.0
        self.failures: list[PipelineError] = []
        self._shape = shape or LoadShape()
        self._publisher = Publisher(kafka, topic)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._keys: dict[str, str] = {}
        self._acknowledged = 0
        self._died: BaseException | None = None

    @property
    def acknowledged(self) -> int:
        """Requests that the broker has acknowledged."""
        return self._acknowledged

    def start(self) -> Self:
        """Connect, then send from now on."""
        self._publisher.start()
        self._file = self.sent_file.open("ab")
        self.begin_seconds = time.time()
        self._thread.start()
        return self

    def stop(self, flush_seconds: float = 60.0) -> None:
        """Send no more and wait for every delivery report. Raises what ended the load early, if anything did."""
        self._stopped.set()
        self._thread.join(flush_seconds)
        try:
            self._publisher.flush(flush_seconds)
        finally:
            self._publisher.close()
            self._file.close()
        if self._died is not None:
            raise self._died

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._file.closed:
            self.stop()

    def _run(self) -> None:
        number = 0
        begun = time.monotonic()
        try:
            while not self._stopped.is_set():
                self._send(number)
                number += 1
                due = begun + number / self._shape.records_per_second
                self._stopped.wait(max(0.0, due - time.monotonic()))
        except PipelineError as error:
            self._died = error
        finally:
            self.end_seconds = time.time()

    def _send(self, number: int) -> None:
        key = f"stream-{number % self._shape.streams}"
        request_id = f"{self.sent_file.stem}-{number}"
        self._keys[request_id] = key
        patience = self._shape.deadline_seconds(number)
        self._publisher.publish(
            self._shape.payload(number),
            content_type=self._shape.content_type,
            key=key,
            request_id=request_id,
            deadline_ms=None if patience is None else int((time.time() + patience) * 1000),
            on_delivery=self._note,
        )

    def _note(self, delivery: Delivery) -> None:
        key = self._keys.pop(delivery.request_id)
        if delivery.position is None:
            if delivery.error is not None:
                self.failures.append(delivery.error)
            return
        self._file.write(format_sent_line(delivery.request_id, delivery.position, key))
        self._acknowledged += 1
