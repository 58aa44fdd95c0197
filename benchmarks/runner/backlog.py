"""Topics and the requests in them."""

import contextlib
from collections.abc import Callable

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks.contestants.assignment import ID_HEADER

PARTITIONS = 8
KEYS = 64
_BUFFER_KIB = 256 << 10

Headers = list[tuple[str, str | bytes | None]]


class Topics:
    """Makes topics, fills them, drops them."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, *names: str) -> None:
        """Make topics of eight partitions. Raises KafkaException when one is there already."""
        for future in self._admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
            future.result()

    def drop(self, *names: str) -> None:
        """Delete topics, so that results of earlier rounds take no disk; a topic that is gone is no error."""
        for future in self._admin.delete_topics(list(names)).values():
            with contextlib.suppress(KafkaException):
                future.result()

    def publish(self, topic: str, payload_of: Callable[[int], bytes], count: int, content_type: str) -> None:
        """Write `count` requests, keyed, numbered from 0 in the header `ce_id`, with the payload of their number."""
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "linger.ms": 20, "queue.buffering.max.kbytes": _BUFFER_KIB}
        )
        for number in range(count):
            headers: Headers = [(ID_HEADER, str(number)), ("content-type", content_type)]
            payload, key = payload_of(number), str(number % KEYS)
            while True:
                try:
                    producer.produce(topic, payload, key, headers=headers)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush()
