"""The door through which records are read: by assignment, without a consumer group.

A reader without a group needs no coordinator and can stand at an exact offset before a request is published.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import CorruptRecordError, KafkaError, OffsetOutOfRangeError

from producers.kafka_connection import Connection, await_broker, client_options, translate, translate_start
from producers.outcomes import Record
from producers.unreadable_batches import find_first_readable
from schemas.errors import ConfigurationError, UnavailableError
from schemas.records import Position
from schemas.settings import KafkaSettings

Start = Literal["latest", "earliest"] | Mapping[tuple[str, int], int]
"""Where to begin. A partition that a mapping does not name begins at its oldest record."""

_POLL_SECONDS = 0.5
_PROBE_SECONDS = 1.0
_log = logging.getLogger(__name__)


class RecordReader(Connection):
    """Reads raw records of whole topics, from one thread only; `lost` counts those deleted before they were read.

    `unreadable` counts offsets that were stepped over because the client cannot take their batch apart.
    """

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
        self.unreadable = 0

    def start(self) -> Self:
        """Connect and stand at the start position of every partition before returning.

        Raises StartUpTimeoutError naming the address, and ConfigurationError naming a missing topic.
        """
        await_broker(self._kafka, self._start_timeout_seconds)
        try:
            self._consumer = self._connect()
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

    def _connect(self) -> Any:
        return KafkaConsumer(
            **client_options(self._kafka, start_timeout_seconds=self._start_timeout_seconds),
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level=self._isolation,
            allow_auto_create_topics=False,
            fetch_max_wait_ms=200,
        )

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
        except CorruptRecordError:
            self._step_over()
            return []
        except KafkaError as error:
            raise translate(error, f"read {', '.join(self._topics)} at {self._kafka.bootstrap}") from error
        for partition, batch in batches.items():
            self._next[tuple(partition)] = batch[-1].offset + 1
        return [_record(item) for batch in batches.values() for item in batch]

    def _step_over(self) -> None:
        """Pass the batches that the client cannot take apart, with a client of their own for each look.

        A header name that is not UTF-8 is enough to make such a batch, and after the error the client's next poll of it
        never returns: so it is never polled again.
        """
        self.close()
        for partition in self._partitions:
            offset = self._next[tuple(partition)]
            readable = find_first_readable(offset, partial(self._is_readable, partition))
            if readable > offset:
                self.unreadable += readable - offset
                _log.warning("%s-%s: records %s to %s cannot be read", *partition, offset, readable - 1)
                self._next[tuple(partition)] = readable
        self._consumer = self._connect()
        self._consumer.assign(self._partitions)
        for partition in self._partitions:
            self._consumer.seek(partition, self._next[tuple(partition)])

    def _is_readable(self, partition: TopicPartition, offset: int) -> bool:
        probe = self._connect()
        try:
            probe.assign([partition])
            probe.seek(partition, offset)
            probe.poll(timeout_ms=int(_PROBE_SECONDS * 1000), max_records=1)
        except CorruptRecordError:
            return False
        except OffsetOutOfRangeError:
            return True
        finally:
            probe.close(autocommit=False)
        return True

    def positions(self) -> dict[tuple[str, int], int]:
        """Tell, by topic and partition, the offset after the last record that `poll` returned."""
        return dict(self._next)

    def end_offsets(self, timeout_seconds: float | None = None) -> dict[tuple[str, int], int]:
        """Read the offsets up to which records are readable now.

        Raises UnavailableError when they are not told in time, by default in `kafka.request_timeout_ms`.
        """
        timeout_ms = None if timeout_seconds is None else max(1, int(timeout_seconds * 1000))
        try:
            ends = self._consumer.end_offsets(self._partitions, timeout_ms=timeout_ms)
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
