"""Batches that a client cannot unfold, on a real broker."""

import resource

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from producers.batch_span import batch_span
from schemas.errors import ConfigurationError, PipelineError, UnavailableError
from tests.faults.conftest import Rig

MEGABYTE = 1_000_000


def write_batch(rig: Rig, topic: str, *values: bytes, codec: str = "none", partition: int = -1) -> None:
    """Write all values as one batch."""
    producer = Producer(
        {
            "bootstrap.servers": rig.stack.bootstrap,
            "compression.type": codec,
            "message.max.bytes": 500 * MEGABYTE,
            "batch.size": 500 * MEGABYTE,
            "linger.ms": 2000,
        }
    )
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(30) == 0


def test_the_span_is_the_whole_batch_wherever_in_it_one_asks(rig: Rig, unique: str) -> None:
    rig.create_topics(unique)
    write_batch(rig, unique, b"alone")
    write_batch(rig, unique, *[b"together"] * 7)
    assert batch_span(rig.direct, unique, 0, 0) == (0, 0)
    assert [batch_span(rig.direct, unique, 0, offset) for offset in (1, 4, 7)] == [(1, 7)] * 3


def test_a_bomb_is_measured_without_being_unfolded_and_the_next_batch_is_behind_it(rig: Rig, unique: str) -> None:
    rig.create_topics(unique)
    write_batch(rig, unique, *[bytes(40 * MEGABYTE)] * 3, codec="zstd")
    write_batch(rig, unique, b"behind")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    base, last = batch_span(rig.direct, unique, 0, 0)
    grown_kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (base, last) == (0, 2)
    assert grown_kilobytes < 30_000
    assert read_after_stepping_over(rig, unique, last + 1) == b"behind"


def read_after_stepping_over(rig: Rig, topic: str, offset: int) -> bytes | None:
    """Meet the error of the bomb at the start of the topic, go to `offset`, and return what is there."""
    consumer = Consumer(
        {
            "bootstrap.servers": rig.stack.bootstrap,
            "group.id": topic,
            "receive.message.max.bytes": 8 * MEGABYTE,
            "fetch.max.bytes": 7 * MEGABYTE,
            "auto.offset.reset": "error",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        refused = consumer.poll(10)
        error = None if refused is None else refused.error()
        assert refused is not None
        assert error is not None
        assert (error.code(), refused.offset()) == (KafkaError._BAD_COMPRESSION, 0)
        consumer.seek(TopicPartition(topic, 0, offset))
        for _ in range(100):
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                value: bytes | None = message.value()
                return value
        return None
    finally:
        consumer.close()


def test_where_there_is_no_batch_that_is_an_error_of_ours(rig: Rig, unique: str) -> None:
    rig.create_topics(unique)
    write_batch(rig, unique, b"one")
    with pytest.raises(UnavailableError, match="no batch"):
        batch_span(rig.direct, unique, 0, 1)
    with pytest.raises(PipelineError):
        batch_span(rig.direct, unique, 0, 99)
    with pytest.raises(ConfigurationError):
        batch_span(rig.direct, f"{unique}-none", 0, 0)
