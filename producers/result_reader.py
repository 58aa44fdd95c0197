"""Results and dead letters as they come, read_committed."""

import logging
import time
from collections.abc import Iterable, Iterator
from typing import Self

from producers.kafka_connection import Connection
from producers.outcomes import Outcome, OutcomeMemory, Record, decode_outcome
from producers.record_reader import RecordReader, Start
from schemas.errors import EnvelopeError, UnavailableError
from schemas.settings import KafkaSettings

__all__ = ["RecordReader", "ResultReader", "Start"]

_POLL_SECONDS = 0.5
_LOGGED_FAULTS = 20
_log = logging.getLogger(__name__)


class ResultReader(Connection):
    """Reads outcomes from a result and a dead-letter topic. A context manager; use it from one thread only.

    A record that is neither is counted in `malformed` and skipped; the first 20 are logged.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        results_topic: str,
        dead_letters_topic: str,
        *,
        start: Start = "latest",
        start_timeout_seconds: float = 30.0,
    ) -> None:
        self._dead_letters_topic = dead_letters_topic
        self._reader = RecordReader(
            kafka, (results_topic, dead_letters_topic), start=start, start_timeout_seconds=start_timeout_seconds
        )
        self._memory = OutcomeMemory()
        self.malformed = 0

    @property
    def lost(self) -> int:
        """Records that were deleted before they could be read."""
        return self._reader.lost

    def start(self) -> Self:
        """Connect and stand at the start position before returning; raises like RecordReader.start."""
        self._reader.start()
        return self

    def poll(self, timeout_seconds: float, *, max_records: int = 500) -> list[Outcome]:
        """Read the outcomes there are; empty when none came in time."""
        return list(self._decode(self._reader.poll(timeout_seconds, max_records=max_records)))

    def read_to_end(self, *, timeout_seconds: float = 30.0) -> Iterator[Outcome]:
        """Yield the outcomes up to where the topics end now. Raises UnavailableError without progress in that time."""
        return self._decode(self._reader.read_until(self._reader.end_offsets(), timeout_seconds=timeout_seconds))

    def _decode(self, records: Iterable[Record]) -> Iterator[Outcome]:
        for record in records:
            try:
                yield decode_outcome(record, dead_letters_topic=self._dead_letters_topic)
            except EnvelopeError as error:
                self.malformed += 1
                if self.malformed <= _LOGGED_FAULTS:
                    _log.warning("skipped a record that is no outcome: %s", error)

    def positions(self) -> dict[tuple[str, int], int]:
        """Tell where reading would go on, by topic and partition."""
        return self._reader.positions()

    def check_reachable(self, timeout_seconds: float) -> None:
        """Ask Kafka for every partition's end: `poll` alone cannot tell silence from a broker that is away.

        Raises UnavailableError when it does not answer in time.
        """
        self._reader.end_offsets(timeout_seconds)

    def __iter__(self) -> Iterator[Outcome]:
        """Yield outcomes for ever."""
        while True:
            yield from self.poll(_POLL_SECONDS)

    def follow(self, ids: Iterable[str], *, timeout_seconds: float) -> Iterator[Outcome]:
        """Yield the first outcome of each id as it comes; stop when all came or the time is over.

        Outcomes of other ids are remembered for a later call, the last 4,096 of them.
        """
        wanted = set(ids)
        deadline = time.monotonic() + timeout_seconds
        yield from self._memory.take(wanted)
        while wanted and (left := deadline - time.monotonic()) > 0:
            self._memory.add(self.poll(min(left, _POLL_SECONDS)))
            yield from self._memory.take(wanted)

    def wait_for(self, request_id: str, timeout_seconds: float) -> Outcome:
        """Wait for the outcome of one request. Raises UnavailableError when it does not come in time."""
        for outcome in self.follow([request_id], timeout_seconds=timeout_seconds):
            return outcome
        raise UnavailableError(f"request {request_id} has no outcome after {timeout_seconds:g} s")

    def wait_for_all(self, ids: Iterable[str], timeout_seconds: float) -> dict[str, Outcome]:
        """Wait for the outcomes of many requests and return those that came in time, by id."""
        return {outcome.request_id: outcome for outcome in self.follow(ids, timeout_seconds=timeout_seconds)}

    def close(self) -> None:
        """Disconnect."""
        self._reader.close()
