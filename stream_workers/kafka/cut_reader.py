"""The recorded cuts of this worker's partitions, read from the control topic.

Read when partitions are assigned and at no other time: while a partition is ours nobody else cuts it, and whoever
takes it over must know what was recorded up to then. A thread that followed all the time would know nothing more.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from model_store.timeline import MAX_ENTRIES
from schemas.errors import EnvelopeError, UnavailableError
from schemas.settings import Settings
from schemas.version_cuts import decode_cut
from stream_workers.batching.work import PartitionKey
from stream_workers.kafka.client_config import connection_config, log_client_error
from stream_workers.kafka.outcome_encoding import CONTROL_PARTITION

_CALL_TIMEOUT_SECONDS = 5.0
_READ_SECONDS = 0.1
_BATCH_RECORDS = 500
_SHARE_OF_POLL_INTERVAL = 0.4
_LONGEST_WAIT_SECONDS = 30.0

_log = structlog.get_logger("versions")


class CutReader:
    """`start`, then `catch_up` before each look at `cuts_of`. Believes nothing that it reads."""

    def __init__(
        self,
        settings: Settings,
        identity: str,
        on_refused: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_refused` is told of each record that is no cut."""
        self._settings = settings
        self._identity = identity
        self._on_refused = on_refused
        self._clock = clock
        self._limit_seconds = min(
            _LONGEST_WAIT_SECONDS, _SHARE_OF_POLL_INTERVAL * settings.worker.max_poll_interval_ms / 1000
        )
        self._consumer: Any = None
        self._admin: Any = None
        self._first: threading.Thread | None = None
        self._read_to = 0
        self._cuts: dict[PartitionKey, dict[int, int]] = {}

    def start(self) -> None:
        """Connect and begin to read, in a thread: a member that replaces a killed one does not wait for it twice."""
        self._first = threading.Thread(target=self._open, name="first-cuts", daemon=True)
        self._first.start()

    def catch_up(self) -> None:
        """Read everything that was recorded up to now, transactions under way included. Raises UnavailableError."""
        if self._first is not None:
            self._first.join()
        give_up_at = self._clock() + self._limit_seconds
        end = self._find_end()
        while self._read_to < end:
            if self._clock() > give_up_at:
                topic = self._settings.topics.control
                raise UnavailableError(f"{topic}: read to {self._read_to} of {end} in {self._limit_seconds:g} s")
            self._read()

    def cuts_of(self, partition: PartitionKey) -> Mapping[int, int]:
        """Return the recorded cuts of a partition, first offset by epoch."""
        return self._cuts.get(partition, {})

    def _open(self) -> None:
        kafka = connection_config(self._settings.kafka, f"{self._identity}-control") | {"error_cb": log_client_error}
        self._admin = AdminClient(kafka)
        self._consumer = Consumer(
            kafka
            | {
                # Never joined and never committed to: the client wants a name.
                "group.id": f"{self._settings.worker.group}-control",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "allow.auto.create.topics": False,
                "check.crcs": True,
                "queued.max.messages.kbytes": 1024,
            }
        )
        self._consumer.assign([TopicPartition(self._settings.topics.control, CONTROL_PARTITION, 0)])

    def _find_end(self) -> int:
        """The end of the topic, beyond what is still under way: a read_committed look would leave that out."""
        place = TopicPartition(self._settings.topics.control, CONTROL_PARTITION)
        try:
            futures = self._admin.list_offsets(
                {place: OffsetSpec.latest()},  # type: ignore[no-untyped-call]  # the client's own annotation is missing
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=_CALL_TIMEOUT_SECONDS,
            )
            return int(futures[place].result().offset)
        except KafkaException as error:
            raise UnavailableError(f"{place.topic}: its end cannot be read: {error.args[0].str()}") from error

    def _read(self) -> None:
        for message in self._consumer.consume(_BATCH_RECORDS, _READ_SECONDS):
            error = message.error()
            if error is None:
                self._read_to = message.offset() + 1
                self._take(message.key(), message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                self._read_to = max(self._read_to, message.offset())
            else:
                _log.warning("control topic", code=error.name(), message=error.str())

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        try:
            cut = decode_cut(key, value)
        except EnvelopeError as error:
            self._on_refused()
            _log.warning("control topic", refused=str(error))
            return
        if cut.model != self._settings.model.name or cut.topic not in self._settings.topics.requests:
            return
        cuts = self._cuts.setdefault((cut.topic, cut.partition), {})
        cuts[cut.epoch] = cut.offset
        if len(cuts) > MAX_ENTRIES:
            # The timeline keeps no more entries either, the newest ones.
            del cuts[min(cuts)]
