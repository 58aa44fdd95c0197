"""The two ways to write outcomes: inside Kafka transactions, or idempotently with offsets committed afterwards.

These are the only places that hold a Kafka producer. All calls come from the settlement's thread.
"""

import threading
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from schemas.errors import FencedError, SettlementError
from schemas.settings import Settings
from stream_workers.batching.offset_ledger import Frontier
from stream_workers.batching.work import PartitionKey
from stream_workers.kafka.client_config import client_logger, log_client_error, producer_config
from stream_workers.kafka.committed_offsets import to_positions
from stream_workers.kafka.group_member import GroupSnapshot
from stream_workers.kafka.outcome_encoding import OutRecord
from stream_workers.kafka.transaction_watch import TransactionWatch

STATISTICS_INTERVAL_MS = 500
_STEP_TIMEOUT_SECONDS = 5.0
_GIVE_UP_SECONDS = 120.0
_OPEN_ATTEMPTS = 4
_FULL_QUEUE_WAIT_SECONDS = 0.01

_log = structlog.get_logger("settlement")

# What a producer that was fenced left open, the broker has aborted already.
warnings.filterwarnings("ignore", "Producer abort_transaction failed during close", RuntimeWarning)


class OutcomeWriter(Protocol):
    """What the settlement needs of Kafka. `begin`, any number of `send`, then `commit` or `start_over`."""

    retirements: int
    """Producers that were replaced."""

    def open(self) -> None:
        """Connect and, with transactions, fence every earlier holder of this identity."""

    def begin(self) -> None:
        """Open a group of outcomes that will become visible together."""

    def send(self, record: OutRecord) -> None:
        """Write one outcome into the open group."""

    def settle_sent(self) -> None:
        """What was sent so far must never be missing once something that is sent after it is seen."""

    def commit(self, frontiers: Mapping[PartitionKey, Frontier], snapshot: GroupSnapshot) -> None:
        """Make the group and its offsets durable. SettlementError: nothing of it counts; FencedError: leave."""

    def settle_doubts(self) -> None:
        """After a commit: make sure that nothing of it is still under way before the next group begins."""

    def start_over(self) -> None:
        """Throw the open group away, so that it can be sent again."""

    def serve(self) -> None:
        """Run client callbacks."""

    def close(self) -> None:
        """Let go of the client."""


class _ProducerOwner:
    """Holds the one Kafka producer of a writer."""

    def __init__(self, settings: Settings, identity: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._identity = identity
        self._clock = clock
        self._producer: Producer | None = None
        self._delivery_errors: list[KafkaError] = []
        self.retirements = 0

    def send(self, record: OutRecord) -> None:
        """Write one outcome; waits while the client's queue is full, which is the back-pressure."""
        topic, partition, key, value, headers = record
        producer = self._live()
        give_up_at: float | None = None
        while True:
            try:
                producer.produce(topic, value, key, partition, headers=headers)
            except BufferError:
                give_up_at = give_up_at or self._clock() + _GIVE_UP_SECONDS
                if self._clock() > give_up_at:
                    raise SettlementError(f"{topic}: the producer's queue stayed full") from None
                self._poll(_FULL_QUEUE_WAIT_SECONDS)
            except KafkaException as error:
                raise self._translate(error) from error
            else:
                return

    def serve(self) -> None:
        """Run the client's callbacks."""
        self._poll(0)

    def close(self) -> None:
        """Close the producer; an open transaction is aborted."""
        if self._producer is not None:
            _close(self._producer)
            self._producer = None

    def _live(self) -> Producer:
        if self._producer is None:
            raise SettlementError("the producer is not open")
        return self._producer

    def _poll(self, wait_seconds: float) -> None:
        """Run callbacks. A client that has met a fatal error raises it from here, before any call is refused."""
        try:
            self._live().poll(wait_seconds)
        except KafkaException as error:
            raise self._translate(error) from error

    def _translate(self, error: KafkaException) -> Exception:
        cause: KafkaError = error.args[0]
        detail = f"; first delivery error: {self._delivery_errors[0].str()}" if self._delivery_errors else ""
        return SettlementError(f"{cause.name()}: {cause.str()}{detail}")

    def _note_delivery(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self._delivery_errors.append(error)


class TransactionalWriter(_ProducerOwner):
    """Results, dead letters and offsets in one transaction; retires its producer after anything that was not clean."""

    def __init__(self, settings: Settings, identity: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(settings, identity, clock)
        self._transactional_id = f"{settings.worker.group}-{identity}"
        self._watch = TransactionWatch()

    def open(self) -> None:
        """Make a producer and take the transactional id over: an open transaction of a predecessor is aborted.

        One whose connection broke meanwhile is given up for another: its client may keep silent about the next break.
        """
        for _ in range(_OPEN_ATTEMPTS):
            self._open_one()
            if self._watch.disturbance is None:
                return
            _close_later(self._live())
        self._open_one()
        self._watch.forgive()

    def _open_one(self) -> None:
        watch = TransactionWatch()
        timeout_ms = self._settings.worker.transaction_timeout_ms
        config = producer_config(self._settings, self._identity, log_client_error) | {
            "transactional.id": self._transactional_id,
            "transaction.timeout.ms": timeout_ms,
            # The client refuses to wait longer for one answer than its transaction lives.
            "socket.timeout.ms": min(timeout_ms, self._settings.kafka.request_timeout_ms),
            # A client that starts over from its bootstrap list loses its coordinators for good (librdkafka 5511).
            "metadata.recovery.strategy": "none",
            "log.connection.close": True,
            "logger": client_logger(watch.note_log),
            "statistics.interval.ms": STATISTICS_INTERVAL_MS,
            "stats_cb": watch.note_statistics,
            "on_delivery": self._note_delivery,
        }
        self._watch = watch
        self._producer = Producer(config)
        self._step(self._producer.init_transactions)
        self._poll(0)

    def begin(self) -> None:
        """Begin a transaction. The one before it was clean, or its producer is gone."""
        self._delivery_errors.clear()
        try:
            self._live().begin_transaction()
        except KafkaException as error:
            raise self._translate(error) from error

    def settle_sent(self) -> None:
        """Nothing to do: a transaction is seen as a whole."""

    def commit(self, frontiers: Mapping[PartitionKey, Frontier], snapshot: GroupSnapshot) -> None:
        """Put the offsets into the transaction, then commit it."""
        producer = self._live()
        if frontiers:
            positions = to_positions(frontiers)
            # A transaction whose time is up is lost anyway: begin another with a fresh client.
            patience = min(_GIVE_UP_SECONDS, self._settings.worker.transaction_timeout_ms / 1000)
            self._step(producer.send_offsets_to_transaction, positions, snapshot.metadata, give_up_seconds=patience)
        self._step(producer.commit_transaction, unknown_is_fatal=True)

    def settle_doubts(self) -> None:
        """Retire the producer if a connection of its broke: some request of it may still be under way."""
        self._poll(0)
        if self._watch.disturbance is not None:
            self._retire(self._watch.disturbance)

    def start_over(self) -> None:
        """Abort, then go on with a fresh producer: whatever the old one still has under way is fenced by its epoch."""
        producer = self._live()
        try:
            producer.abort_transaction(_STEP_TIMEOUT_SECONDS)
        except KafkaException as error:
            if error.args[0].fatal():
                raise self._translate(error) from error
            _log.warning("abort", code=error.args[0].name(), message=error.args[0].str())
        self._retire("a transaction was aborted")

    def _step(
        self,
        call: Callable[..., Any],
        *arguments: Any,
        give_up_seconds: float = _GIVE_UP_SECONDS,
        unknown_is_fatal: bool = False,
    ) -> None:
        """Call until it succeeds, is refused, or has been retried for too long."""
        started = self._clock()
        while True:
            try:
                call(*arguments, _STEP_TIMEOUT_SECONDS)
            except KafkaException as error:
                if not error.args[0].retriable() or error.args[0].txn_requires_abort():
                    raise self._translate(error) from error
                if self._clock() - started > give_up_seconds:
                    # Whether an unanswered commit counted is known to the broker only: a new incarnation asks it.
                    raise (FencedError if unknown_is_fatal else SettlementError)(
                        f"no answer from the transaction coordinator: {error.args[0].str()}"
                    ) from error
                continue
            return

    def _retire(self, reason: str) -> None:
        old = self._live()
        self.retirements += 1
        _log.info("producer retired", reason=reason, transactional_id=self._transactional_id)
        _close_later(old)
        self.open()

    def _translate(self, error: KafkaException) -> Exception:
        if error.args[0].fatal():
            return FencedError(f"producer {self._transactional_id}: {error.args[0].str()}")
        return super()._translate(error)


class IdempotentWriter(_ProducerOwner):
    """At-least-once: outcomes are flushed, and only then are their offsets handed on to be committed."""

    def open(self) -> None:
        """Make an idempotent producer."""
        config = producer_config(self._settings, self._identity, log_client_error)
        self._producer = Producer(config | {"on_delivery": self._note_delivery})

    def begin(self) -> None:
        """Begin a group of outcomes."""
        self._delivery_errors.clear()

    def settle_sent(self) -> None:
        """Wait until what was sent is acknowledged."""
        self._flush()

    def commit(self, frontiers: Mapping[PartitionKey, Frontier], snapshot: GroupSnapshot) -> None:
        """Wait until every outcome is acknowledged. The offsets are the caller's to commit, after this."""
        del frontiers, snapshot
        self._flush()

    def _flush(self) -> None:
        started = self._clock()
        while self._live().flush(_STEP_TIMEOUT_SECONDS):
            if self._clock() - started > _GIVE_UP_SECONDS:
                raise SettlementError("outcomes were not acknowledged")
        if self._delivery_errors:
            raise SettlementError(f"an outcome was refused: {self._delivery_errors[0].str()}")

    def settle_doubts(self) -> None:
        """Nothing to do: an acknowledged outcome stays acknowledged."""

    def start_over(self) -> None:
        """Forget what is not acknowledged; it is sent again, which at-least-once allows."""
        old = self._live()
        old.purge()
        self.retirements += 1
        _close_later(old)
        self.open()


def _close_later(producer: Producer) -> None:
    """Close in a thread, since it may wait for a broker that does not answer; a new epoch makes it harmless."""
    threading.Thread(target=_close, args=(producer,), name="retired-producer", daemon=True).start()


def _close(producer: Producer) -> None:
    """Close; that a fenced producer cannot even say goodbye is no news."""
    try:
        producer.close()
    except KafkaException as error:
        _log.debug("close", reason=error.args[0].str())
