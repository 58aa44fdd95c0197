"""Asks a broker which offsets one stored batch covers, from the batch's header alone.

For a batch that no client can unfold: the offset behind it is read from the log, never guessed.
"""

import struct
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.errors import KafkaError, NoError, for_code
from kafka.protocol.consumer import FetchRequest

from producers.kafka_connection import client_options, translate, translate_start
from schemas.errors import InvalidRecordError, UnavailableError
from schemas.settings import KafkaSettings

# Base offset, batch length, leader epoch, magic, checksum, attributes, last offset delta.
_HEADER = struct.Struct(">qiibIhi")
_MAGIC = 2
_OLDEST_VERSION = 4  # of the fetch request: what Kafka 4 still answers, and the first that sends the batch whole
_NEWEST_VERSION = 12  # later ones name topics by an id


def batch_span(
    kafka: KafkaSettings, topic: str, partition: int, offset: int, *, start_timeout_seconds: float = 10.0
) -> tuple[int, int]:
    """Return the first and last offset of the batch at `offset`, or of the next one when compaction left a hole.

    Nothing is decompressed: it holds one batch as stored, at most the topic's `max.message.bytes`. Raises
    UnavailableError when Kafka does not answer or has nothing there, ConfigurationError when it refuses, and
    InvalidRecordError when the header itself is damaged.
    """
    try:
        client = KafkaAdminClient(**client_options(kafka, start_timeout_seconds=start_timeout_seconds))
    except KafkaError as error:
        raise translate_start(error, kafka, start_timeout_seconds) from error
    try:
        records = client._manager.run(_fetch, client, topic, partition, offset)  # noqa: SLF001 - no public raw fetch
    except KafkaError as error:
        raise translate(error, f"read the batch at {topic}-{partition}-{offset}") from error
    finally:
        client.close()
    return parse_span(records, f"{topic}-{partition}-{offset}", offset)


def parse_span(records: bytes, place: str, offset: int) -> tuple[int, int]:
    """Read the span out of the first batch in `records`; `place` is for messages. Raises like `batch_span`."""
    if len(records) < _HEADER.size:
        raise UnavailableError(f"{place}: the broker has no batch there")
    base, length, _, magic, _, _, last_delta = _HEADER.unpack_from(records)
    if magic != _MAGIC or length <= 0 or base < 0 or last_delta < 0 or base + last_delta < offset:
        raise InvalidRecordError(f"{place}: the header of the batch is damaged")
    return base, base + last_delta


async def _fetch(client: Any, topic: str, partition: int, offset: int) -> bytes:
    leaders = await client._async_get_leader_for_partitions([TopicPartition(topic, partition)])  # noqa: SLF001 - as above
    # One byte is too little for any batch: the broker then sends exactly the first one.
    place = FetchRequest.FetchTopic.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1)
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=1,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[place])],
        forgotten_topics_data=[],
        rack_id="",
        min_version=_OLDEST_VERSION,
        max_version=_NEWEST_VERSION,
    )
    response = await client._manager.send(request, node_id=next(iter(leaders)))  # noqa: SLF001 - as above
    for found in (item for answer in response.responses for item in answer.partitions):
        kind = for_code(found.error_code)
        if kind is not NoError:
            raise kind(f"fetch of {topic}-{partition} at {offset}")
        return bytes(found.records or b"")
    return b""
