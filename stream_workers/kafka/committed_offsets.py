"""Committed offsets with the text beside them: how frontiers are spelled for the broker, and read back."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException, TopicPartition

from schemas.errors import UnavailableError
from stream_workers.batching.epoch_floor import encode_floor
from stream_workers.batching.offset_ledger import Frontier
from stream_workers.batching.work import PartitionKey

_CALL_TIMEOUT_SECONDS = 5.0
_LIMIT_SECONDS = 15.0
_RETRY_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """What the group has committed for a partition: the next offset to read, -1 for none, and the text beside it."""

    offset: int = -1
    metadata: str = ""


def to_positions(frontiers: Mapping[PartitionKey, Frontier]) -> list[TopicPartition]:
    """Spell frontiers as offsets to commit, each with the epoch that was reached beside it."""
    return [TopicPartition(*key, frontier.offset, encode_floor(frontier.epoch)) for key, frontier in frontiers.items()]


def read_committed(consumer: Any, partitions: Sequence[PartitionKey]) -> dict[PartitionKey, CommittedOffset]:
    """Read what the group has committed; waits for transactions that are under way. Raises UnavailableError."""
    found: dict[PartitionKey, CommittedOffset] = {}
    wanted = [TopicPartition(*key) for key in partitions]
    give_up_at = time.monotonic() + _LIMIT_SECONDS
    while wanted:
        reason = ""
        try:
            read = consumer.committed(wanted, timeout=_CALL_TIMEOUT_SECONDS)
        except KafkaException as error:
            read, reason = [], error.args[0].str()
        for entry in read:
            if entry.error is not None:
                reason = entry.error.str()
                continue
            offset = entry.offset if entry.offset >= 0 else -1
            found[entry.topic, entry.partition] = CommittedOffset(offset, entry.metadata or "")
        wanted = [entry for entry in wanted if (entry.topic, entry.partition) not in found]
        if wanted and time.monotonic() > give_up_at:
            raise UnavailableError(f"committed offsets of {len(wanted)} partitions cannot be read: {reason}")
        if wanted:
            time.sleep(_RETRY_SECONDS)
    return found
