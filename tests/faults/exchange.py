"""Raw records in, outcomes out, matched by source position: for records that no well-behaved publisher would send."""

import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec
from confluent_kafka import Producer

from producers.outcomes import Outcome
from producers.result_reader import ResultReader
from schemas.records import DeadLetter, Position, Result
from tests.faults.harness import FaultRun

Header = tuple[str, bytes | str | None]


class Raw(NamedTuple):
    """One record as it is sent, byte by byte."""

    value: bytes | None
    headers: Sequence[Header] = ()
    key: bytes | None = b"k"
    partition: int = 0
    topic: str = ""


class Exchange:
    """A raw producer and a reader of everything that comes out. A context manager."""

    def __init__(self, run: FaultRun) -> None:
        self._topic = run.topics.requests[0]
        self._producer = Producer(
            {"bootstrap.servers": run.rig.stack.bootstrap, "message.max.bytes": 20_000_000, "linger.ms": 5}
        )
        self._reader = ResultReader(run.rig.direct, run.topics.results, run.topics.dead_letters, start="earliest")
        self.outcomes: dict[Position, list[Outcome]] = {}
        self.arrived_at: dict[Position, float] = {}
        self.in_order: list[Position] = []
        """Source positions as their outcomes were read."""

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()

    def send(self, records: Iterable[Raw]) -> list[Position]:
        """Send in order; returns where each record lies."""
        records = list(records)
        found: list[Position | None] = [None] * len(records)
        for index, record in enumerate(records):

            def note(error: Any, message: Any, index: int = index) -> None:
                assert error is None, error
                found[index] = Position(message.topic(), message.partition(), message.offset())

            topic, headers = record.topic or self._topic, list(record.headers)
            self._producer.produce(topic, record.value, record.key, record.partition, headers=headers, on_delivery=note)
        assert self._producer.flush(30) == 0
        return [position for position in found if position is not None]

    def read(self, seconds: float = 0.2) -> None:
        """Take in what has come."""
        for outcome in self._reader.poll(seconds):
            self.outcomes.setdefault(outcome.source, []).append(outcome)
            self.arrived_at.setdefault(outcome.source, time.monotonic())
            self.in_order.append(outcome.source)

    def collect(self, wanted: Iterable[Position], seconds: float = 20.0) -> list[Outcome]:
        """Wait for the outcomes of these positions, and return the first of each. Raises TimeoutError."""
        wanted = list(wanted)
        give_up_at = time.monotonic() + seconds
        while not all(position in self.outcomes for position in wanted):
            if time.monotonic() > give_up_at:
                missing = [str(position) for position in wanted if position not in self.outcomes]
                raise TimeoutError(f"no outcome of {missing[:10]} after {seconds:g} s")
            self.read()
        return [self.outcomes[position][0] for position in wanted]

    def ask(self, *records: Raw, seconds: float = 20.0) -> list[Outcome]:
        """Send and wait."""
        return self.collect(self.send(records), seconds)


def answer_of(outcome: Outcome) -> Any:
    """The model's answer; fails for anything else."""
    assert isinstance(outcome, Result), outcome
    assert outcome.output is not None, outcome
    return msgspec.json.decode(outcome.output)


def refusal_of(outcome: Outcome) -> DeadLetter:
    """The dead letter; fails for anything else."""
    assert isinstance(outcome, DeadLetter), outcome
    return outcome
