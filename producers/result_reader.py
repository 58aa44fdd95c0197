"""The door through which results and dead letters are read: read_committed, by assignment, without a consumer group.

A reader without a group needs no coordinator and can stand at an exact offset before a request is published.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Self

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, OffsetOutOfRangeError

from producers.kafka_connection import Connection, await_broker, client_options, translate, translate_start
from producers.outcomes import Outcome, OutcomeMemory, Record, decode_outcome
from schemas.errors import ConfigurationError, EnvelopeError, UnavailableError
from schemas.records import Position
from schemas.settings import KafkaSettings

Start = Literal["latest", "earliest"] | Mapping[tuple[str, int], int]
"""Where to begin. A partition that a mapping does not name begins at its oldest record."""

_POLL_SECONDS = 0.5
_LOGGED_FAULTS = 20
_log = logging.getLogger(__name__)


class RecordReader(Connection):
    """Reads raw records of whole topics, from one thread only; `lost` counts those deleted before they were read."""

    def __init__(
        self,
        kafka: KafkaSettings,
        topics: Sequence[str],
        *,
        start: Start = "latest",
        isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
        start_timeout_seconds: float = 30.0,
    ) -> None:
        self._kafka = kafka
        self._topics = tuple(dict.fromkeys(topics))
        self._start = start
        self._isolation = isolation
        self._start_timeout_seconds = start_timeout_seconds
        self._consumer: Any = None
        self._partitions: list[TopicPartition] = []
        self._next: dict[tuple[str, int], int] = {}
        self.lost = 0

    def start(self) -> Self:
        """Connect and stand at the start position of every partition before returning.

        Raises StartUpTimeoutError naming the address, and ConfigurationError naming a missing topic.
        """
        await_broker(self._kafka, self._start_timeout_seconds)
        try:
            self._consumer = KafkaConsumer(
                **client_options(self._kafka, start_timeout_seconds=self._start_timeout_seconds),
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="none",
                isolation_level=self._isolation,
                allow_auto_create_topics=False,
                fetch_max_wait_ms=200,
            )
            for topic in self._topics:
                self._partitions += [TopicPartition(topic, number) for number in self._numbers(topic)]
            self._consumer.assign(self._partitions)
            self._place()
        except (KafkaError, ConfigurationError) as error:
            self.close()
            if isinstance(error, ConfigurationError):
                raise
            raise translate_start(error, self._kafka, self._start_timeout_seconds) from error
        return self

    def _numbers(self, topic: str) -> list[int]:
        numbers = self._consumer.partitions_for_topic(topic)
        if not numbers:
            raise ConfigurationError(
                f"Kafka at {self._kafka.bootstrap} has no topic {topic}: run `headrace topics create`"
            )
        return sorted(numbers)

    def _place(self) -> None:
        oldest = self._consumer.beginning_offsets(self._partitions)
        newest = self._consumer.end_offsets(self._partitions)
        for partition in self._partitions:
            if self._start == "latest":
                offset = newest[partition]
            elif self._start == "earliest":
                offset = oldest[partition]
            else:
                offset = self._start.get(tuple(partition), oldest[partition])
            self._seek(partition, offset, oldest[partition])

    def _seek(self, partition: TopicPartition, offset: int, oldest: int) -> None:
        if offset < oldest:
            self.lost += oldest - offset
            _log.warning("%s-%s: %d records were deleted before they could be read", *partition, oldest - offset)
        self._next[tuple(partition)] = max(offset, oldest)
        self._consumer.seek(partition, max(offset, oldest))

    def poll(self, timeout_seconds: float, *, max_records: int = 500) -> list[Record]:
        """Read what there is, in offset order per partition; empty when nothing came in time.

        Raises UnavailableError or ConfigurationError when the client gives up by itself.
        """
        try:
            batches = self._consumer.poll(timeout_ms=max(0, int(timeout_seconds * 1000)), max_records=max_records)
        except OffsetOutOfRangeError:
            oldest = self._consumer.beginning_offsets(self._partitions)
            for partition in self._partitions:
                self._seek(partition, self._next[tuple(partition)], oldest[partition])
            return []
        except KafkaError as error:
            raise translate(error, f"read {', '.join(self._topics)} at {self._kafka.bootstrap}") from error
        for partition, batch in batches.items():
            self._next[tuple(partition)] = batch[-1].offset + 1
        return [_record(item) for batch in batches.values() for item in batch]

    def positions(self) -> dict[tuple[str, int], int]:
        """Tell, by topic and partition, the offset after the last record that `poll` returned."""
        return dict(self._next)

    def end_offsets(self) -> dict[tuple[str, int], int]:
        """Read the offsets up to which records are readable now. Raises UnavailableError."""
        try:
            ends = self._consumer.end_offsets(self._partitions)
        except KafkaError as error:
            raise translate(error, f"read offsets at {self._kafka.bootstrap}") from error
        return {tuple(partition): offset for partition, offset in ends.items()}

    def read_until(self, ends: Mapping[tuple[str, int], int], *, timeout_seconds: float) -> Iterator[Record]:
        """Yield records up to `ends`, then stop; transaction markers at the end are stepped over.

        Raises UnavailableError when there is no progress for `timeout_seconds`.
        """
        deadline = time.monotonic() + timeout_seconds
        seen: dict[tuple[str, int], int] = {}
        while True:
            yield from self.poll(_POLL_SECONDS)
            position = {tuple(part): self._consumer.position(part) or 0 for part in self._partitions}
            if all(position.get(part, end) >= end for part, end in ends.items()):
                return
            if position != seen:
                seen, deadline = position, time.monotonic() + timeout_seconds
            elif time.monotonic() > deadline:
                raise UnavailableError(
                    f"reading {', '.join(self._topics)} at {self._kafka.bootstrap} made no progress in"
                    f" {timeout_seconds:g} s"
                )

    def close(self) -> None:
        """Disconnect."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close(autocommit=False)


def _record(item: Any) -> Record:
    position = Position(item.topic, item.partition, item.offset)
    return Record(position, item.timestamp, item.key, item.value, item.headers)


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
