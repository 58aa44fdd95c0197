"""Compares copies and writes the comparisons, on a thread of its own: the worker's loop never waits for it.

Its queue is bounded by bytes. What does not fit, cannot be written or goes wrong is counted, and nothing else.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import structlog

from schemas.errors import ConfigurationError, PipelineError
from schemas.shadow_records import ShadowBody
from stream_workers.kafka.outcome_encoding import OutRecord
from stream_workers.metrics import ShadowMetrics
from stream_workers.pipeline.contract import BatchOutcome
from stream_workers.shadowing.comparison import ComparisonEncoder
from stream_workers.shadowing.copies import Drop, count_bytes

REST_SECONDS = 10.0
"""How long nothing is tried after the topic was missing or Kafka did not answer."""
_SLICE_SECONDS = 0.2
_FLUSH_SECONDS = 0.1

_log = structlog.get_logger("shadow")


class WritesComparisons(Protocol):
    """See :class:`stream_workers.kafka.shadow_writer.ShadowWriter`."""

    def open(self) -> None:
        """Connect. Raises ConfigurationError when there is no topic, and UnavailableError."""

    def write(self, record: OutRecord) -> bool:
        """Hand a record on; False when it cannot be taken."""

    def take_undelivered(self) -> int:
        """Return how many records were lost since the last call."""

    def close(self, timeout_seconds: float) -> None:
        """Let the client go."""


class ShadowCourier:
    """One run of one shadow. `start`, any number of `offer`, then `close`; the thread ends itself soon after."""

    def __init__(
        self,
        encoder: ComparisonEncoder,
        writer: WritesComparisons,
        metrics: ShadowMetrics,
        max_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._encoder = encoder
        self._writer = writer
        self._metrics = metrics
        self._max_bytes = max_bytes
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: deque[BatchOutcome] = deque()
        self._waiting_bytes = 0
        self._closing = False
        self._is_open = False
        self._try_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="shadow", daemon=True)
        self.trouble = ""
        """Why comparisons cannot be written, while that is so."""
        self.has_no_topic = False
        """Whether that is for want of the topic: then there is nothing to run a shadow for."""

    def start(self) -> None:
        """Start the thread; it connects."""
        self._thread.start()

    def offer(self, outcome: BatchOutcome) -> bool:
        """Have a copy compared that came back; False when too much waits or nothing can be written."""
        size = count_bytes(outcome.batch)
        with self._changed:
            if self.trouble or self._waiting_bytes + size > self._max_bytes:
                return False
            self._waiting.append(outcome)
            self._waiting_bytes += size
            self._changed.notify()
        return True

    def close(self, wait_seconds: float = 0.0) -> None:
        """End the thread, and wait for that at most so long. What waits is dropped."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(wait_seconds)

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing:
            try:
                self.turn()
            except Exception:  # noqa: BLE001 - a comparison that goes wrong must not end those that follow
                _log.exception("comparison failed")
                self._metrics.dropped.labels(Drop.UNSENT).inc()
        if self._is_open:
            self._writer.close(_FLUSH_SECONDS)

    def turn(self) -> None:
        """Connect when that is due, then write what has come within a slice of time."""
        if not self._is_open and self._clock() >= self._try_at:
            self._open()
        outcome = self._take()
        if self._is_open:
            if outcome is not None:
                self._write(outcome)
            self._metrics.dropped.labels(Drop.UNSENT).inc(self._writer.take_undelivered())
        elif outcome is not None:
            self._metrics.dropped.labels(Drop.UNSENT).inc(len(outcome.batch.items))

    def _open(self) -> None:
        self._try_at = self._clock() + REST_SECONDS
        try:
            self._writer.open()
        except PipelineError as error:
            if self.trouble != str(error):
                _log.warning("comparisons cannot be written", reason=str(error))
            self.trouble, self.has_no_topic = str(error), isinstance(error, ConfigurationError)
            return
        self.trouble, self.has_no_topic, self._is_open = "", False, True

    def _take(self) -> BatchOutcome | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing, _SLICE_SECONDS)
            if not self._waiting or self._closing:
                return None
            outcome = self._waiting.popleft()
            self._waiting_bytes -= count_bytes(outcome.batch)
            return outcome

    def _write(self, outcome: BatchOutcome) -> None:
        for record, body in self._encoder.encode(outcome):
            self._count(body)
            if not self._writer.write(record):
                self._metrics.dropped.labels(Drop.UNSENT).inc()

    def _count(self, body: ShadowBody) -> None:
        if body.failure is not None:
            self._metrics.failed.labels(body.failure.code).inc()
            return
        self._metrics.answered.inc()
        if not body.equal:
            self._metrics.different.inc()
