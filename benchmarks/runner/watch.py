"""Reading results as a reader sees them: the clock of the throughput runs, and the check of what was read."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import Consumer, Message, TopicPartition

from benchmarks.contestants.assignment import find_id
from benchmarks.runner.backlog import PARTITIONS
from benchmarks.runner.processes import ContestantFailedError

_READ_SECONDS = 0.02
_CHECK_SECONDS = 0.5


@dataclass(frozen=True)
class Seen:
    """What a reader read, from the first answer to the last."""

    per_second: float
    answers: dict[int, bytes]
    """By request number."""
    doubled: int


def open_reader(bootstrap: str, topic: str) -> Consumer:
    """A read_committed reader of a whole topic, from its beginning."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
        }
    )
    reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    return reader


def watch(bootstrap: str, topic: str, count: int, timeout_seconds: float, check: Callable[[], None]) -> Seen:
    """Read until all `count` requests are answered; the clock runs from a fifth of the answers to the last.

    So start-up does not count, and a transaction counts once it is committed. Ids and values are looked at after the
    clock has stopped. `check` is called now and then and may raise. Raises ContestantFailedError when any is missing.
    """
    reader = open_reader(bootstrap, topic)
    kept: list[Message] = []
    answers: dict[int, bytes] = {}
    began, begin, collected, checked_at = 0.0, 0, 0, time.monotonic()
    give_up_at = checked_at + timeout_seconds
    try:
        while True:
            kept += (message for message in reader.consume(10_000, _READ_SECONDS) if not message.error())
            now = time.monotonic()
            if not began and len(kept) >= count // 5:
                began, begin = now, len(kept)
            if len(kept) >= count:
                collect_answers(kept[collected:], answers)
                collected = len(kept)
            if len(answers) >= count:
                break
            if now > give_up_at:
                collect_answers(kept[collected:], answers)
                raise ContestantFailedError(f"{len(answers)} of {count} requests answered in {timeout_seconds:.0f} s")
            if now - checked_at > _CHECK_SECONDS:
                checked_at = now
                check()
    finally:
        reader.close()
    # What was all read at once was faster than can be told: at least this fast.
    per_second = (count - begin) / (now - began) if begin < count else count / _READ_SECONDS
    return Seen(per_second, answers, len(kept) - len(answers))


def collect_answers(messages: Sequence[Message], answers: dict[int, bytes]) -> None:
    """Add answers by request number; of a doubled one the first stays. What bears no number is none."""
    for message in messages:
        identity = find_id(message.headers())
        if identity.isdigit():
            answers.setdefault(int(identity), message.value() or b"")
