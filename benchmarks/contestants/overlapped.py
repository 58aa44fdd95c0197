"""The loop as an expert writes it in a hundred lines: nothing waits for anything that it does not need.

The main thread makes all consumer calls and hands batches to one-thread forward lanes; lanes decode, run, encode and
produce; delivery reports move the acknowledged prefix of each partition, which is committed every 100 ms. At least
once.
"""

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from confluent_kafka import Consumer, Message, Producer

from benchmarks.contestants.acknowledged import AcknowledgedPrefix, Report
from benchmarks.contestants.assignment import Assignment, answer_headers, read_assignment

COMMIT_SECONDS = 0.1
WAIT_SECONDS = 0.01
BATCHES_AHEAD = 4


class Model(Protocol):
    """Answers batches."""

    def answer(self, payloads: Sequence[bytes]) -> list[bytes]:
        """One answer per payload, in order."""


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
        self._batches: queue.Queue[tuple[list[Message], Mapping[int, Report]]] = queue.Queue(BATCHES_AHEAD)
        self._prefix = AcknowledgedPrefix(self._consumer, task.requests)

    def run(self) -> None:
        """Consume, hand over and commit, until terminated."""
        for _ in range(self._task.spec.overlapped_lanes):
            threading.Thread(target=self._work, daemon=True).start()
        self._consumer.subscribe([self._task.requests], on_revoke=lambda *_: self._prefix.forget())
        commit_at = time.monotonic()
        while True:
            messages = self._consumer.consume(self._task.batch_size, WAIT_SECONDS)
            taken = [message for message in messages if not message.error()]
            if taken:
                self._batches.put((taken, self._prefix.note(taken)))
            self._producer.poll(0)
            if time.monotonic() >= commit_at:
                commit_at = time.monotonic() + COMMIT_SECONDS
                self._prefix.commit()

    def load_model(self) -> Model:
        """Load what a lane runs."""
        return self._task.load_model()

    def _work(self) -> None:
        model, topic = self.load_model(), self._task.results
        while True:
            messages, reports = self._batches.get()
            answers = model.answer([message.value() or b"" for message in messages])
            for message, answer in zip(messages, answers, strict=True):
                headers = answer_headers(message.headers())
                report = reports[cast("int", message.partition())]
                self._producer.produce(topic, answer, message.key(), headers=headers, on_delivery=report)


if __name__ == "__main__":
    OverlappedLoop(read_assignment()).run()
