"""The consumer-group member: the one place that holds a Kafka consumer. Every call comes from one thread.

librdkafka's events are turned into values (:class:`Polled`) or errors of our tree; rebalances call the listener from
inside :meth:`GroupMember.poll`.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from schemas.errors import EnvelopeError, FencedError, InvalidRecordError, UnavailableError
from schemas.headers import decode_request
from schemas.records import BYTES, Request
from schemas.settings import Settings
from stream_workers.batching.offset_ledger import Frontier
from stream_workers.batching.work import PartitionKey
from stream_workers.kafka.client_config import consumer_config, log_client_error
from stream_workers.kafka.committed_offsets import CommittedOffset, read_committed, to_positions

UNREADABLE_AFTER = 3
"""Errors at one offset after which a batch that cannot be unpacked is stepped over."""
_UNREADABLE = (KafkaError._BAD_COMPRESSION, KafkaError._BAD_MSG, KafkaError.INVALID_MSG)
_WATERMARK_TIMEOUT_SECONDS = 5.0
_COMMIT_RETRY_SECONDS = 0.2

_log = structlog.get_logger("member")


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """Who this member was when it last polled: opaque to us, proof to the broker (KIP-447). `serial` rises."""

    metadata: Any
    serial: int


@dataclass(frozen=True, slots=True)
class UnreadableBatch:
    """A batch at `offset` that the client cannot unpack, seen often enough to be believed."""

    partition: PartitionKey
    offset: int
    message: str


@dataclass(slots=True)
class Polled:
    """What one poll brought, in order."""

    requests: list[Request] = field(default_factory=list)
    faults: dict[int, InvalidRecordError] = field(default_factory=dict)
    """By index into `requests`: the envelope could not be read."""
    ends: dict[PartitionKey, int] = field(default_factory=dict)
    """Partitions read to their end, control records included, and the offset after it."""
    unreadable: list[UnreadableBatch] = field(default_factory=list)
    records_lost: dict[PartitionKey, int] = field(default_factory=dict)
    """Records that retention deleted before they were read."""


class RebalanceListener(Protocol):
    """Told of partitions that come and go, in the polling thread."""

    def on_assigned(self, partitions: Mapping[PartitionKey, CommittedOffset]) -> None:
        """Partitions were added; each begins at its committed offset."""

    def on_revoked(self, partitions: Sequence[PartitionKey]) -> None:
        """Partitions are about to go: this is the time to finish their work."""

    def on_lost(self, partitions: Sequence[PartitionKey]) -> None:
        """Partitions are gone already: nothing of theirs may be written any more."""


class GroupMember:
    """A static member of the consumer group."""

    def __init__(self, settings: Settings, identity: str) -> None:
        self._settings = settings
        self._identity = identity
        self._consumer: Consumer | None = None
        self._serial = 0
        self._is_member = False
        self._is_connected = True
        self._decode_errors: dict[PartitionKey, tuple[int, int]] = {}
        self._resets: dict[PartitionKey, int | None] = {}
        self._asked: dict[PartitionKey, Frontier] = {}
        self._refused: set[PartitionKey] = set()
        self._retry_at = 0.0

    def join(self, listener: RebalanceListener) -> None:
        """Subscribe to the request topics."""
        config = consumer_config(self._settings, self._identity, log_client_error)
        self._consumer = Consumer(config | {"on_commit": self._note_commit, "stats_cb": self._note_statistics})

        def moved(partitions: Iterable[TopicPartition]) -> list[PartitionKey]:
            keys = [(partition.topic, partition.partition) for partition in partitions]
            for key in keys:
                self._resets.pop(key, None)
                self._decode_errors.pop(key, None)
                self._asked.pop(key, None)
                self._refused.discard(key)
            return keys

        self._consumer.subscribe(
            list(self._settings.topics.requests),
            on_assign=lambda _, partitions: listener.on_assigned(read_committed(self._open(), moved(partitions))),
            on_revoke=lambda _, partitions: listener.on_revoked(moved(partitions)),
            on_lost=lambda _, partitions: listener.on_lost(moved(partitions)),
        )

    def poll(self, max_records: int, wait_seconds: float) -> Polled:
        """Fetch what is there, waiting at most `wait_seconds` for the first record. Runs rebalances.

        Raises FencedError when another process took this member's identity.
        """
        consumer = self._open()
        polled = Polled()
        for key in list(self._resets):
            self._reset(key, polled)
        if self._refused and time.monotonic() >= self._retry_at:
            refused, self._refused = self._refused, set()
            self.commit({key: self._asked[key] for key in refused}, wait=False)
        messages: list[Message] = []
        if wait_seconds > 0:
            first = consumer.poll(wait_seconds)
            if first is None:
                return polled
            messages.append(first)
        messages += consumer.consume(max_records, 0)
        # A header whose name is not UTF-8 makes the client return a broken list *and* set an exception. Python's own
        # specialised calls do not look for that, and would read the list; `map` always does. Ask once per message: the
        # second time, the broken list comes without a warning.
        headers_of = map(Message.headers, messages)
        for message in messages:
            error = message.error()
            if error is None:
                self._read(message, headers_of, polled)
            else:
                next(headers_of)
                self._note_error(message, error, polled)
        return polled

    @property
    def is_member(self) -> bool:
        """True when the last snapshot found an identity in the group."""
        return self._is_member

    @property
    def is_connected(self) -> bool:
        """False when the client had no connection to any broker when it last looked, which is once a second."""
        return self._is_connected

    def snapshot(self) -> GroupSnapshot | None:
        """Take this member's identity in the group, or None while it has none. Take it right after a poll."""
        consumer = self._open()
        # The metadata keeps its old generation after the membership is lost; the member id does not.
        self._is_member = bool(consumer.memberid())
        if not self._is_member:
            return None
        self._serial += 1
        return GroupSnapshot(consumer.consumer_group_metadata(), self._serial)

    def pause(self, partitions: Sequence[PartitionKey]) -> None:
        """Stop fetching some partitions."""
        self._open().pause([TopicPartition(*key) for key in partitions])

    def resume(self, partitions: Sequence[PartitionKey]) -> None:
        """Fetch them again."""
        self._open().resume([TopicPartition(*key) for key in partitions])

    def seek(self, partition: PartitionKey, offset: int) -> None:
        """Go on reading a partition at `offset`."""
        self._open().seek(TopicPartition(*partition, offset))

    def commit(self, frontiers: Mapping[PartitionKey, Frontier], *, wait: bool) -> None:
        """Commit offsets without a transaction (at-least-once).

        A failure repeats work and loses none; what a rebalance refused is tried again while the partition is ours.
        """
        if not frontiers:
            return
        self._asked |= frontiers
        positions = to_positions(frontiers)
        try:
            if wait:
                self._open().commit(offsets=positions, asynchronous=False)
            else:
                self._open().commit(offsets=positions, asynchronous=True)
        except KafkaException as error:
            _log.warning("offsets were not committed", reason=error.args[0].str())

    def leave(self) -> None:
        """Close. A static member keeps its partitions until its session ends, so a quick restart moves nothing."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _note_statistics(self, text: str) -> None:
        # Ten kilobytes of JSON for one fact: looked for as text. Only brokers have a state in capitals.
        self._is_connected = '"state":"UP"' in text

    def _note_commit(self, error: KafkaError | None, positions: Sequence[TopicPartition]) -> None:
        refused = {
            (position.topic, position.partition)
            for position in positions
            if error is not None or position.error is not None
        }
        refused &= self._asked.keys()
        if refused:
            _log.warning("offsets refused", reason="" if error is None else error.str(), partitions=len(refused))
            self._refused |= refused
            self._retry_at = time.monotonic() + _COMMIT_RETRY_SECONDS

    def _open(self) -> Consumer:
        if self._consumer is None:
            raise UnavailableError("the member has not joined its group")
        return self._consumer

    def _read(self, message: Any, headers_of: Iterator[Any], polled: Polled) -> None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        timestamp_ms, key, payload = message.timestamp()[1], message.key(), message.value()
        headers: Any = ()
        try:
            headers = next(headers_of)
            request = decode_request(topic, partition, offset, timestamp_ms, key, payload, headers)
        except (EnvelopeError, SystemError) as error:
            # SystemError: see `poll`. The headers of this record cannot be had.
            fault = error if isinstance(error, EnvelopeError) else EnvelopeError("a header's name is not UTF-8 text")
            polled.faults[len(polled.requests)] = fault
            request = Request(
                id=f"{topic}-{partition}-{offset}",
                topic=topic,
                partition=partition,
                offset=offset,
                timestamp_ms=timestamp_ms,
                key=key,
                payload=payload,
                content_type=BYTES,
                headers=tuple(headers or ()),
            )
        polled.requests.append(request)

    def _note_error(self, message: Any, error: KafkaError, polled: Polled) -> None:
        code = error.code()
        if error.fatal():
            raise FencedError(
                f"consumer {self._identity}: {error.str()}; does a worker on another host have the same worker.name?"
            )
        if message.topic() is None:
            _log.warning("consumer", code=error.name(), message=error.str())
            return
        key = (message.topic(), message.partition())
        if code == KafkaError._PARTITION_EOF:
            polled.ends[key] = message.offset()
        elif code == KafkaError._AUTO_OFFSET_RESET:
            self._resets[key] = message.offset()
        elif code in _UNREADABLE:
            self._note_unreadable(key, message.offset(), error.str(), polled)
        else:
            _log.warning("consumer", code=error.name(), message=error.str(), topic=key[0], partition=key[1])

    def _reset(self, key: PartitionKey, polled: Polled) -> None:
        """Choose a start offset where none is committed (`wanted` is None) or the committed one is out of range."""
        consumer, wanted = self._open(), self._resets[key]
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(*key), timeout=_WATERMARK_TIMEOUT_SECONDS)
            if wanted is None:
                start = low if self._settings.worker.start_from == "earliest" else high
            else:
                start = low if wanted < low else high
            # seek() is refused in this state; giving the partition anew at an explicit offset is not.
            consumer.incremental_unassign([TopicPartition(*key)])
            consumer.incremental_assign([TopicPartition(*key, start)])
        except KafkaException as error:
            _log.warning("start offset", topic=key[0], partition=key[1], reason=error.args[0].str())
            return
        del self._resets[key]
        if wanted is not None:
            polled.records_lost[key] = max(0, low - wanted)
            _log.error("offset out of range", topic=key[0], partition=key[1], wanted=wanted, low=low, high=high)

    def _note_unreadable(self, key: PartitionKey, offset: int, text: str, polled: Polled) -> None:
        seen_offset, count = self._decode_errors.get(key, (offset, 0))
        count = count + 1 if seen_offset == offset else 1
        self._decode_errors[key] = (offset, count)
        if count >= UNREADABLE_AFTER:
            del self._decode_errors[key]
            polled.unreadable.append(UnreadableBatch(key, offset, text))
