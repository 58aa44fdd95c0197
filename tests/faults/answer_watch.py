"""A reader during: when each outcome could be read, and how long its request had waited by then."""

import bisect
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from producers.outcomes import decode_outcome
from producers.record_reader import RecordReader
from schemas.settings import KafkaSettings, TopicSettings

Window = tuple[float, float]
"""From and until, epoch seconds."""


class AnswerWatch:
    """Follows committed outcomes in a thread of its own, from the time of entering to that of leaving."""

    def __init__(self, kafka: KafkaSettings, topics: TopicSettings) -> None:
        self._topics = topics
        self._reader = RecordReader(kafka, [topics.results, topics.dead_letters])
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="answers", daemon=True)
        self._read_at: list[float] = []
        self._latencies: list[float] = []

    def __enter__(self) -> Self:
        self._reader.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(10)

    @property
    def count(self) -> int:
        """Outcomes read so far."""
        return len(self._latencies)

    def latencies(self, windows: Sequence[Window]) -> list[float]:
        """Seconds from the append of a request until its outcome was read, of those read within the windows."""
        found: list[float] = []
        for begin, end in windows:
            first, last = bisect.bisect_left(self._read_at, begin), bisect.bisect_right(self._read_at, end)
            found += self._latencies[first:last]
        return found

    def _follow(self) -> None:
        try:
            while not self._over.is_set():
                records = self._reader.poll(0.2)
                now = time.time()
                for record in records:
                    outcome = decode_outcome(record, dead_letters_topic=self._topics.dead_letters)
                    self._read_at.append(now)
                    self._latencies.append(now - outcome.source_timestamp_ms / 1000)
        finally:
            self._reader.close()
