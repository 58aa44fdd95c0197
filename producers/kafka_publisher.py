"""The door through which requests enter Kafka: idempotent, acknowledged by all replicas, bounded in bytes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.record import util as record_util

from producers.delivery_ledger import Counts, DeliveryLedger
from producers.kafka_connection import Connection, client_options, translate, translate_start
from producers.payloads import array_payload, image_file_payload, json_payload
from producers.record_size import SizeLimits, count_record_bytes
from producers.request_attributes import Attributes, Delivery, OnDelivery, build_headers, encode_key
from producers.request_ids import new_request_id
from producers.topics import TopicAdmin
from schemas.errors import ConfigurationError, InvalidInputError, PublishError
from schemas.records import JSON, NPY, Position
from schemas.settings import MIB, KafkaSettings

if TYPE_CHECKING:
    import numpy

_BATCH_BYTES = 256 * 1024
_FORCED_CLOSE_SECONDS = 2.0


@dataclass(frozen=True)
class PublisherOptions:
    """How a publisher sends. Sizes are checked before anything is handed to the client."""

    limits: SizeLimits = field(default_factory=SizeLimits)
    buffer_bytes: int = 64 * MIB
    """Bytes without a delivery report; beyond them `publish` waits, at most `block_seconds`."""
    block_seconds: float = 60.0
    linger_ms: int = 5
    delivery_timeout_seconds: float = 120.0
    start_timeout_seconds: float = 30.0


class Publisher(Connection):
    """Writes requests to one topic. Leaving it as a context manager flushes. Safe to use from many threads.

    Order: requests of one key are written in the order of the calls. A request is written once even when the client has
    to send it again.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        topic: str,
        *,
        source: str = "headrace/publisher",
        options: PublisherOptions | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._kafka = kafka
        self._topic = topic
        self._source = source
        self._options = options or PublisherOptions()
        self._clock = clock
        self._limits = self._options.limits
        self._ledger = DeliveryLedger(self._options.buffer_bytes)
        self._producer: Any = None

    @property
    def topic(self) -> str:
        """Where requests go."""
        return self._topic

    @property
    def counts(self) -> Counts:
        """Requests sent, acknowledged and failed so far."""
        return self._ledger.counts

    @property
    def limits(self) -> SizeLimits:
        """What may be sent; the topic's own limit is known after the start."""
        return self._limits

    def start(self) -> Self:
        """Connect and learn the topic's limit.

        Raises ConfigurationError when the topic is missing or the native checksum is not installed, and
        StartUpTimeoutError naming the address when Kafka does not answer.
        """
        if getattr(record_util, "crc32c_c", None) is None:
            raise ConfigurationError(
                "the native crc32c package is missing, and publishing would be 5 to 15 times slower without it:"
                " install headrace[producer]"
            )
        seconds = self._options.start_timeout_seconds
        with TopicAdmin(self._kafka, start_timeout_seconds=seconds) as admin:
            self._limits = replace(self._limits, message_bytes=admin.max_message_bytes(self._topic))
        options = client_options(self._kafka, start_timeout_seconds=seconds)
        message_bytes = self._limits.message_bytes or _BATCH_BYTES
        try:
            self._producer = KafkaProducer(
                **options,
                acks="all",
                enable_idempotence=True,
                allow_auto_create_topics=False,
                linger_ms=self._options.linger_ms,
                # A batch above the topic's limit would make the broker refuse records that fit it one by one.
                batch_size=min(_BATCH_BYTES, message_bytes),
                max_request_size=max(MIB, message_bytes, count_record_bytes(None, None, ()) + self._whole_limit()),
                max_block_ms=int(self._options.block_seconds * 1000),
                delivery_timeout_ms=max(
                    int(self._options.delivery_timeout_seconds * 1000),
                    self._kafka.request_timeout_ms + self._options.linger_ms + 1,
                ),
            )
        except KafkaError as error:
            raise translate_start(error, self._kafka, seconds) from error
        return self

    def _whole_limit(self) -> int:
        return self._limits.payload_bytes + self._limits.key_bytes + self._limits.header_bytes

    def publish(self, payload: bytes, *, content_type: str, **attributes: Unpack[Attributes]) -> str:
        """Hand one request to the client and return its id; `flush` or `on_delivery` tell whether it was written.

        Raises, before anything is sent: PayloadTooLargeError, InvalidInputError for an empty payload, EnvelopeError for
        an unknown content type or an attribute that a worker would refuse; and PublishError when the send buffer stays
        full.
        """
        if not payload:
            raise InvalidInputError("the payload is empty")
        request_id = attributes.get("request_id") or new_request_id()
        headers = build_headers(
            attributes, request_id=request_id, source=self._source, content_type=content_type, now=self._clock()
        )
        self.publish_record(
            request_id,
            key=encode_key(attributes.get("key")),
            payload=payload,
            headers=headers,
            on_delivery=attributes.get("on_delivery"),
        )
        return request_id

    def publish_json(self, value: object, **attributes: Unpack[Attributes]) -> str:
        """Publish a JSON value. Raises InvalidInputError for what JSON cannot say."""
        return self.publish(json_payload(value), content_type=JSON, **attributes)

    def publish_array(self, array: "numpy.ndarray[Any, Any]", **attributes: Unpack[Attributes]) -> str:
        """Publish an array as .npy. Raises InvalidInputError for arrays of objects."""
        return self.publish(array_payload(array), content_type=NPY, **attributes)

    def publish_image_file(self, path: Path, **attributes: Unpack[Attributes]) -> str:
        """Publish a JPEG or PNG file as it is. Raises InvalidInputError when it is neither, or too large."""
        payload, content_type = image_file_payload(path, limit=self._limits.payload_bytes)
        return self.publish(payload, content_type=content_type, **attributes)

    def publish_record(
        self,
        request_id: str,
        *,
        key: bytes | None,
        payload: bytes | None,
        headers: Sequence[tuple[str, bytes]],
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """Write a record whose envelope exists already, such as a dead letter that goes back. Raises like `publish`."""
        if self._producer is None:
            raise PublishError(f"request {request_id}: the publisher is not started")
        self._limits.check(f"request {request_id}", key, payload, headers)
        size = count_record_bytes(key, payload, headers)
        self._ledger.admit(size, self._options.block_seconds)
        try:
            future = self._producer.send(self._topic, value=payload, key=key, headers=list(headers))
        except (KafkaError, ValueError, TypeError) as error:
            self._ledger.withdraw(size)
            raise translate(error, f"request {request_id} to {self._topic}", otherwise=PublishError) from error
        future.add_callback(self._on_written, size, request_id, on_delivery)
        future.add_errback(self._on_failed, size, request_id, on_delivery)

    def _on_written(self, size: int, request_id: str, on_delivery: OnDelivery | None, metadata: Any) -> None:
        self._ledger.settle(size, request_id, None)
        if on_delivery is not None:
            position = Position(metadata.topic, metadata.partition, metadata.offset)
            on_delivery(Delivery(request_id, position, None))

    def _on_failed(self, size: int, request_id: str, on_delivery: OnDelivery | None, error: Exception) -> None:
        translated = translate(error, f"request {request_id} to {self._topic}", otherwise=PublishError)
        self._ledger.settle(size, request_id, translated)
        if on_delivery is not None:
            on_delivery(Delivery(request_id, None, translated))

    def flush(self, timeout_seconds: float = 120.0) -> None:
        """Wait until every request so far has its delivery report.

        Raises PublishError that says how many failed since the last flush and names the first, or how many have no
        report in time.
        """
        self._ledger.wait_until_settled(timeout_seconds)

    def close(self) -> None:
        """Give up what has no delivery report yet, and disconnect. Call `flush` first to wait for it."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            producer.close(timeout=_FORCED_CLOSE_SECONDS)
        except KafkaTimeoutError:
            # The client's close flushes first and leaves its thread running when that fails; only this stops it.
            producer._sender.force_close()  # noqa: SLF001 - the client has no public way
            producer.close(timeout=_FORCED_CLOSE_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.flush(self._options.delivery_timeout_seconds)
        finally:
            self.close()
