"""Comparisons on their way: bounded, counted, and never in anybody's way."""

from prometheus_client import CollectorRegistry

from schemas.errors import ConfigurationError, UnavailableError
from schemas.records import Timings
from stream_workers.batching.work import Answer, Batch, ReleaseReason, ServedVersion, WorkItem
from stream_workers.kafka.outcome_encoding import OutRecord
from stream_workers.metrics import ShadowMetrics
from stream_workers.pipeline.contract import BatchAnswered
from stream_workers.shadowing.comparison import ComparisonEncoder
from stream_workers.shadowing.courier import REST_SECONDS, ShadowCourier
from tests.unit.stream_workers.builders import request

V1, V2 = ServedVersion("m", "v1", 3), ServedVersion("m", "v2", 3)
PAYLOAD_BYTES = 100


class FakeWriter:
    def __init__(self) -> None:
        self.error: Exception | None = None
        self.full = False
        self.opened = 0
        self.undelivered = 0
        self.records: list[OutRecord] = []

    def open(self) -> None:
        self.opened += 1
        if self.error is not None:
            raise self.error

    def write(self, record: OutRecord) -> bool:
        if not self.full:
            self.records.append(record)
        return not self.full

    def take_undelivered(self) -> int:
        undelivered, self.undelivered = self.undelivered, 0
        return undelivered

    def close(self, timeout_seconds: float) -> None: ...


class Rig:
    def __init__(self, max_bytes: int = 10_000) -> None:
        self.now = 0.0
        self.writer = FakeWriter()
        self.registry = CollectorRegistry()
        encoder = ComparisonEncoder("shadow", lambda _: "fp32")
        self.courier = ShadowCourier(encoder, self.writer, ShadowMetrics(self.registry), max_bytes, lambda: self.now)

    def offer(self, output: bytes = b"1") -> bool:
        item = WorkItem(request(0, 0), 1, 0.0, "json", PAYLOAD_BYTES)
        item.outcome = Answer(b"1", V1, Timings(1.0, 4.5, 8))
        batch = Batch(1, [item], ReleaseReason.FULL, V2, is_copy=True)
        return self.courier.offer(BatchAnswered(batch, [output], V2, 1.0))

    def count(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(f"headrace_shadow_{name}_total", labels) or 0.0


def test_what_comes_back_is_written_and_counted() -> None:
    rig = Rig()
    assert rig.offer(b"1")
    assert rig.offer(b"2")
    rig.courier.turn()
    rig.courier.turn()
    assert len(rig.writer.records) == 2
    assert (rig.count("answered"), rig.count("different")) == (2, 1)


def test_its_queue_is_bounded_and_has_room_again_once_something_was_written() -> None:
    rig = Rig(max_bytes=2 * PAYLOAD_BYTES + 2)
    assert [rig.offer(), rig.offer(), rig.offer()] == [True, True, False]
    rig.courier.turn()
    assert rig.offer()


def test_a_missing_topic_is_looked_for_again_after_a_while() -> None:
    rig = Rig()
    rig.writer.error = ConfigurationError("no topic: run `headrace topics create`")
    rig.offer()
    rig.courier.turn()
    assert (rig.courier.has_no_topic, rig.courier.trouble) == (True, "no topic: run `headrace topics create`")
    assert rig.count("dropped", reason="unsent") == 1
    assert not rig.offer(), "nothing is taken that could not be written"
    rig.writer.error = None
    rig.now += REST_SECONDS
    rig.courier._closing = True  # a turn that waits for nothing
    rig.courier.turn()
    assert (rig.courier.has_no_topic, rig.courier.trouble, rig.writer.opened) == (False, "", 2)


def test_a_kafka_that_does_not_answer_is_no_reason_to_let_the_version_go() -> None:
    rig = Rig()
    rig.writer.error = UnavailableError("no answer")
    rig.offer()
    rig.courier.turn()
    assert (rig.courier.has_no_topic, rig.courier.trouble) == (False, "no answer")


def test_what_the_client_does_not_take_or_deliver_is_counted() -> None:
    rig = Rig()
    rig.writer.full, rig.writer.undelivered = True, 3
    rig.offer()
    rig.courier.turn()
    assert rig.count("dropped", reason="unsent") == 4


def test_it_ends_soon_after_it_was_told_to() -> None:
    rig = Rig()
    rig.courier.start()
    rig.courier.close(wait_seconds=10.0)
    assert not rig.courier._thread.is_alive()
