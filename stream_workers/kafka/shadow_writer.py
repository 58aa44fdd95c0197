"""The door to the shadow topic: a producer of its own, outside every transaction, that gives up rather than wait."""

from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from schemas.errors import ConfigurationError, UnavailableError
from schemas.settings import Settings
from stream_workers.kafka.client_config import connection_config, log_client_error
from stream_workers.kafka.outcome_encoding import OutRecord

_LOOK_SECONDS = 5.0
_DELIVERY_MS = 10_000
_QUEUE_KIBIBYTES = 8 * 1024
_QUEUE_RECORDS = 10_000
_UNKNOWN_TOPIC = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")


class ShadowWriter:
    """At most once: nothing is tried a second time. For one thread. `open` first."""

    def __init__(self, settings: Settings, identity: str) -> None:
        self._settings = settings
        self._topic = settings.topics.shadow
        self._identity = identity
        self._producer: Any = None
        self._undelivered = 0

    def open(self) -> None:
        """Connect. Raises ConfigurationError when there is no such topic, and UnavailableError."""
        largest = self._settings.limits.outcome_bytes
        config = connection_config(self._settings.kafka, f"{self._identity}-shadow") | {
            "acks": 1,
            "retries": 0,
            "allow.auto.create.topics": False,
            "linger.ms": 50,
            "delivery.timeout.ms": _DELIVERY_MS,
            "message.max.bytes": largest,
            "queue.buffering.max.messages": _QUEUE_RECORDS,
            "queue.buffering.max.kbytes": max(_QUEUE_KIBIBYTES, largest >> 9),
            "partitioner": "murmur2_random",
            "delivery.report.only.error": True,
            "on_delivery": self._note_delivery,
            "error_cb": log_client_error,
        }
        producer = Producer(config)
        try:
            found = producer.list_topics(self._topic, timeout=_LOOK_SECONDS).topics.get(self._topic)
        except KafkaException as error:
            raise UnavailableError(f"Kafka at {self._settings.kafka.bootstrap}: {error.args[0].str()}") from error
        if found is None or (found.error is not None and found.error.name() in _UNKNOWN_TOPIC):
            raise ConfigurationError(
                f"topics.shadow: Kafka at {self._settings.kafka.bootstrap} has no topic {self._topic}: run"
                " `headrace topics create`"
            )
        if found.error is not None:
            raise UnavailableError(f"topic {self._topic}: {found.error.str()}")
        self._producer = producer

    def write(self, record: OutRecord) -> bool:
        """Hand a record to the client; False when its queue is full or it refuses the record."""
        topic, partition, key, value, headers = record
        try:
            self._producer.produce(topic, value, key, partition, headers=headers)
        except (BufferError, KafkaException):
            return False
        return True

    def take_undelivered(self) -> int:
        """Run the client's callbacks; returns how many records were not delivered since the last call."""
        self._producer.poll(0)
        undelivered, self._undelivered = self._undelivered, 0
        return undelivered

    def close(self, timeout_seconds: float) -> None:
        """Give what is under way this long, and let the client go."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.flush(timeout_seconds)
            producer.purge()

    def _note_delivery(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._undelivered += 1
