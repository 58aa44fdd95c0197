"""What the raw client does when a commit message is cut off and arrives late. Settlement exists because of it.

These tests pin down a client and a broker, not our code: when one of them fails, the guard may have become unnecessary,
or the signal it trusts may have gone.
"""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from producers.result_reader import RecordReader
from producers.topics import TopicAdmin
from tests.faults.conftest import Rig
from tests.faults.request_faults import ApiKey, Fault

LIMIT_SECONDS = 15


class Listener(logging.Handler):
    """Keeps what the client says in its log and in its statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.statistics: list[dict[str, Any]] = []
        self.errors: list[KafkaError] = []
        self.logger = logging.getLogger(f"raw client {id(self)}")
        self.logger.setLevel(logging.DEBUG)
        self.logger.propagate = False
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def count_coordinator(self, name: str) -> int:
        """One counter of the connection to the transaction coordinator."""
        counted: int = self.statistics[-1]["brokers"]["TxnCoordinator"][name]
        return counted


def start_producer(rig: Rig, transactional_id: str, listener: Listener | None = None) -> Producer:
    heard = listener or Listener()
    producer = Producer(
        {
            "bootstrap.servers": rig.proxied.bootstrap,
            "transactional.id": transactional_id,
            "retry.backoff.ms": 5,
            "reconnect.backoff.ms": 100,
            "linger.ms": 0,
            "statistics.interval.ms": 50,
            "stats_cb": lambda text: heard.statistics.append(json.loads(text)),
            "error_cb": heard.errors.append,
        },
        logger=heard.logger,
    )
    producer.init_transactions(LIMIT_SECONDS)
    return producer


def write(producer: Producer, topic: str, *values: str) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value.encode())
    producer.flush(LIMIT_SECONDS)


def poll_until(producer: Producer, condition: Callable[[], bool]) -> None:
    for _ in range(LIMIT_SECONDS * 50):
        if condition():
            return
        producer.poll(0.02)
    pytest.fail(f"not true after {LIMIT_SECONDS} s")


def cut_commit(rig: Rig, producer: Producer, topic: str) -> Fault:
    """Commit one clean transaction and one whose commit message the proxy holds; both calls succeed."""
    write(producer, topic, "clean")
    producer.commit_transaction(LIMIT_SECONDS)
    fault = rig.proxy.hold(ApiKey.END_TXN, deliver_after=None)
    write(producer, topic, "cut")
    producer.commit_transaction(LIMIT_SECONDS)
    assert fault.struck.is_set()
    return fault


def read_committed(rig: Rig, topic: str) -> list[str]:
    with RecordReader(rig.direct, [topic], start="earliest") as reader:
        return [
            (record.value or b"").decode() for record in reader.read_until(reader.end_offsets(), timeout_seconds=10)
        ]


def test_a_late_commit_makes_an_aborted_batch_visible(rig: Rig, unique: str) -> None:
    rig.create_topics(unique)
    producer = start_producer(rig, unique)
    fault = cut_commit(rig, producer, unique)
    write(producer, unique, "aborted")
    fault.release()
    assert fault.finished.wait(LIMIT_SECONDS)
    with pytest.raises(KafkaException) as refused:
        producer.abort_transaction(LIMIT_SECONDS)
    assert refused.value.args[0].code() == KafkaError.INVALID_TXN_STATE
    assert read_committed(rig, unique) == ["clean", "cut", "aborted"]


def test_a_fresh_producer_of_the_same_identity_makes_the_broker_refuse_the_late_commit(rig: Rig, unique: str) -> None:
    rig.create_topics(unique)
    retired = start_producer(rig, unique)
    fault = cut_commit(rig, retired, unique)
    fresh = start_producer(rig, unique)
    write(fresh, unique, "aborted")
    fault.release()
    assert fault.finished.wait(LIMIT_SECONDS)
    error_code = int.from_bytes(fault.response[8:10], "big")
    assert error_code in {KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED}
    fresh.abort_transaction(LIMIT_SECONDS)
    write(fresh, unique, "after")
    fresh.commit_transaction(LIMIT_SECONDS)
    assert read_committed(rig, unique) == ["clean", "cut", "after"]


def test_the_log_shows_the_cut_as_soon_as_the_commit_returns_and_the_error_callback_never_does(
    rig: Rig, unique: str
) -> None:
    rig.create_topics(unique)
    listener = Listener()
    producer = start_producer(rig, unique, listener)
    fault = cut_commit(rig, producer, unique)
    producer.poll(0)
    cuts = [line for line in listener.lines if line.startswith("FAIL") and "[thrd:TxnCoordinator]" in line]
    assert cuts, f"the log says only {listener.lines}"
    assert listener.errors == []
    fault.release()


def test_the_statistics_show_the_cut_in_a_later_snapshot(rig: Rig, unique: str) -> None:
    rig.create_topics(unique)
    listener = Listener()
    producer = start_producer(rig, unique, listener)
    poll_until(producer, lambda: bool(listener.statistics))
    assert listener.count_coordinator("disconnects") == 0
    fault = cut_commit(rig, producer, unique)
    poll_until(producer, lambda: listener.count_coordinator("disconnects") == 1)
    poll_until(producer, lambda: listener.statistics[-1]["brokers"]["TxnCoordinator"]["req"]["EndTxn"] == 3)
    fault.release()


def test_late_offsets_set_the_group_back(rig: Rig, unique: str) -> None:
    rig.create_topics(unique)
    producer = start_producer(rig, unique)
    consumer = Consumer({"bootstrap.servers": rig.stack.bootstrap, "group.id": unique})
    consumer.subscribe([unique])
    for _ in range(LIMIT_SECONDS * 10):
        consumer.poll(0.1)
        if consumer.assignment():
            break
    identity = consumer.consumer_group_metadata()

    def send_offset(offset: int) -> None:
        write(producer, unique, f"up to {offset}")
        producer.send_offsets_to_transaction([TopicPartition(unique, 0, offset)], identity, LIMIT_SECONDS)

    fault = rig.proxy.hold(ApiKey.TXN_OFFSET_COMMIT, deliver_after=None)
    send_offset(1)
    producer.commit_transaction(LIMIT_SECONDS)
    send_offset(2)
    fault.release()
    assert fault.finished.wait(LIMIT_SECONDS)
    producer.commit_transaction(LIMIT_SECONDS)
    with TopicAdmin(rig.direct) as admin:
        assert admin.committed_offsets(unique) == {(unique, 0): 1}
    consumer.close()
