"""The loop as an expert writes it in a hundred lines: nothing waits for anything that it does not need.

The main thread makes all consumer calls and hands batches to one-thread forward lanes; lanes decode, run, encode and
produce; delivery reports move the acknowledged prefix of each partition, which is committed every 100 ms. At least
once.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from benchmarks.contestants.assignment import Assignment, answer_headers, read_assignment

COMMIT_SECONDS = 0.1
WAIT_SECONDS = 0.01
BATCHES_AHEAD = 4


class Model(Protocol):
    """Answers batches."""

    def answer(self, payloads: Sequence[bytes]) -> list[bytes]:
        """One answer per payload, in order."""


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


class OverlappedLoop:
    """Everything that the two kinds of thread share."""

    def __init__(self, task: Assignment) -> None:
        self._task = task
        client = {"bootstrap.servers": task.bootstrap}
        self._consumer = Consumer(
            {**client, "group.id": task.group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        self._producer = Producer(
            {**client, "enable.idempotence": True, "linger.ms": 5, "queue.buffering.max.messages": 1_000_000}
        )
        self._batches: queue.Queue[tuple[list[Message], dict[int, list[int]]]] = queue.Queue(BATCHES_AHEAD)
        self._progress: dict[int, Progress] = {}

    def run(self) -> None:
        """Consume, hand over and commit, until terminated."""
        for _ in range(self._task.spec.overlapped_lanes):
            threading.Thread(target=self._work, daemon=True).start()
        self._consumer.subscribe([self._task.requests], on_revoke=lambda *_: self._progress.clear())
        commit_at = time.monotonic()
        while True:
            messages = self._consumer.consume(self._task.batch_size, WAIT_SECONDS)
            taken = [message for message in messages if not message.error()]
            if taken:
                self._batches.put((taken, self._note(taken)))
            self._producer.poll(0)
            if time.monotonic() >= commit_at:
                commit_at = time.monotonic() + COMMIT_SECONDS
                self._commit()

    def load_model(self) -> Model:
        """Load what a lane runs."""
        return self._task.load_model()

    def _note(self, messages: list[Message]) -> dict[int, list[int]]:
        """Remember, per partition, that these records are on their way."""
        entries: dict[int, list[int]] = {}
        for message in messages:
            partition, offset = cast("int", message.partition()), cast("int", message.offset())
            entry = entries.setdefault(partition, [0, 0])
            entry[0], entry[1] = offset + 1, entry[1] + 1
        for partition, entry in entries.items():
            self._progress.setdefault(partition, Progress()).pending.append(entry)
        return entries

    def _work(self) -> None:
        model, topic = self.load_model(), self._task.results
        while True:
            messages, entries = self._batches.get()
            answers = model.answer([message.value() or b"" for message in messages])
            for message, answer in zip(messages, answers, strict=True):
                headers = answer_headers(message.headers())
                report = _Report(entries[cast("int", message.partition())])
                self._producer.produce(topic, answer, message.key(), headers=headers, on_delivery=report)

    def _commit(self) -> None:
        moved = [
            TopicPartition(self._task.requests, partition, progress.committable)
            for partition, progress in self._progress.items()
            if progress.advance()
        ]
        if moved:
            self._consumer.commit(offsets=moved, asynchronous=True)


class _Report:
    """Counts one record of a batch as delivered. Called from the main thread's poll, so nothing is locked."""

    __slots__ = ("_entry",)

    def __init__(self, entry: list[int]) -> None:
        self._entry = entry

    def __call__(self, error: Any, _message: Any) -> None:
        if error is None:
            self._entry[1] -= 1


if __name__ == "__main__":
    OverlappedLoop(read_assignment()).run()
