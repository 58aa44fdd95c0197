"""What may be committed by a program that has several batches on their way: the acknowledged prefix of each partition.

Used by the contestants that do not wait for the broker. From one thread only.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from confluent_kafka import Consumer, Message, TopicPartition


@dataclass
class Progress:
    """The acknowledged prefix of one partition. Batches may finish in any order."""

    pending: deque[list[int]] = field(default_factory=deque)
    """Per batch, in order of consumption: the offset behind its last record, and its records without a report yet."""
    committable: int = -1

    def advance(self) -> bool:
        """Move over what is acknowledged; True when that was anything."""
        before = self.committable
        while self.pending and self.pending[0][1] == 0:
            self.committable = self.pending.popleft()[0]
        return self.committable != before


class Report:
    """Counts one record of a batch as delivered: a delivery callback."""

    __slots__ = ("_entry",)

    def __init__(self, entry: list[int]) -> None:
        self._entry = entry

    def __call__(self, error: Any, _message: Any) -> None:
        """Called by the producer's poll."""
        if error is None:
            self._entry[1] -= 1


class AcknowledgedPrefix:
    """Progress of all partitions of one consumer."""

    def __init__(self, consumer: Consumer, topic: str) -> None:
        self._consumer = consumer
        self._topic = topic
        self._partitions: dict[int, Progress] = {}

    def note(self, messages: Sequence[Message]) -> Mapping[int, Report]:
        """Remember that these are on their way; returns, by partition, what to call for each that was delivered."""
        entries: dict[int, list[int]] = {}
        for message in messages:
            partition, offset = cast("int", message.partition()), cast("int", message.offset())
            entry = entries.setdefault(partition, [0, 0])
            entry[0], entry[1] = offset + 1, entry[1] + 1
        for partition, entry in entries.items():
            self._partitions.setdefault(partition, Progress()).pending.append(entry)
        return {partition: Report(entry) for partition, entry in entries.items()}

    def commit(self) -> None:
        """Commit what has moved, without waiting."""
        moved = [
            TopicPartition(self._topic, partition, progress.committable)
            for partition, progress in self._partitions.items()
            if progress.advance()
        ]
        if moved:
            self._consumer.commit(offsets=moved, asynchronous=True)

    def forget(self) -> None:
        """After a rebalance: what is on its way may be somebody else's now."""
        self._partitions.clear()
