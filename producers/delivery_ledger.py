"""What a publisher has sent and not yet heard of: bounded bytes, counters and the failures since the last flush."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from schemas.errors import PipelineError, PublishError


@dataclass(frozen=True)
class Counts:
    """How many requests a publisher handed to its client, and what became of them. `sent` includes those in flight."""

    sent: int
    acked: int
    failed: int

    @property
    def in_flight(self) -> int:
        """Requests without a delivery report."""
        return self.sent - self.acked - self.failed


class DeliveryLedger:
    """Thread-safe: `admit` is called by publishing threads, `settle` by the client's own thread."""

    def __init__(self, buffer_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._buffer_bytes = buffer_bytes
        self._clock = clock
        self._changed = threading.Condition()
        self._bytes = 0
        self._sent = self._acked = self._failed = 0
        self._failed_since_flush = 0
        self._first_failure: tuple[str, PipelineError] | None = None

    @property
    def counts(self) -> Counts:
        """A consistent snapshot."""
        with self._changed:
            return Counts(self._sent, self._acked, self._failed)

    def admit(self, size: int, timeout_seconds: float) -> None:
        """Wait until `size` bytes fit the buffer, then count one request as sent.

        A request larger than the whole buffer is admitted alone. Raises PublishError when there is no room in time.
        """
        with self._changed:
            fits = self._changed.wait_for(
                lambda: self._bytes == 0 or self._bytes + size <= self._buffer_bytes, timeout_seconds
            )
            if not fits:
                raise PublishError(
                    f"send buffer full for {timeout_seconds:g} s: {self._bytes} bytes wait for Kafka, of"
                    f" {self._buffer_bytes} allowed"
                )
            self._bytes += size
            self._sent += 1

    def settle(self, size: int, request_id: str, error: PipelineError | None) -> None:
        """Count one delivery report and free its bytes."""
        with self._changed:
            self._bytes -= size
            if error is None:
                self._acked += 1
            else:
                self._failed += 1
                self._failed_since_flush += 1
                self._first_failure = self._first_failure or (request_id, error)
            self._changed.notify_all()

    def withdraw(self, size: int) -> None:
        """Take back an admission whose request never reached the client."""
        with self._changed:
            self._bytes -= size
            self._sent -= 1
            self._changed.notify_all()

    def wait_until_settled(self, timeout_seconds: float) -> None:
        """Wait for every report. Raises PublishError when some are missing, or when some failed since the last call."""
        with self._changed:
            self._changed.wait_for(lambda: self._acked + self._failed == self._sent, timeout_seconds)
            missing = self._sent - self._acked - self._failed
            failed, first = self._failed_since_flush, self._first_failure
            if missing:
                raise PublishError(f"{missing} of {self._sent} requests were not acknowledged in {timeout_seconds:g} s")
            self._failed_since_flush, self._first_failure = 0, None
        if first is not None:
            request_id, error = first
            raise PublishError(f"{failed} requests were not written; the first, {request_id}: {error}") from error
