"""The door through which an audit reads Kafka: offsets of every kind, committed records, open transactions."""

from collections.abc import Collection, Iterator
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError
from kafka.protocol.consumer import IsolationLevel

from producers.audit.access import Edge
from producers.audit.ledger import Offsets
from producers.kafka_connection import Connection, client_options, translate, translate_start
from producers.outcomes import Record
from producers.result_reader import RecordReader
from producers.topics import TopicAdmin
from schemas.settings import KafkaSettings

_PROGRESS_SECONDS = 30.0
_EDGES = {
    Edge.START: (OffsetSpec.EARLIEST, IsolationLevel.READ_UNCOMMITTED),
    Edge.STABLE: (OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED),
    Edge.END: (OffsetSpec.LATEST, IsolationLevel.READ_UNCOMMITTED),
}


class KafkaAudit(Connection):
    """An :class:`~producers.audit.access.AuditAccess` on a real cluster. A context manager; for one thread at a time.

    A follower has a connection of its own and may live in another thread.
    """

    def __init__(self, kafka: KafkaSettings, *, start_timeout_seconds: float = 30.0) -> None:
        self._kafka = kafka
        self._start_timeout_seconds = start_timeout_seconds
        self._topics = TopicAdmin(kafka, start_timeout_seconds=start_timeout_seconds)
        self._client: Any = None

    def start(self) -> "KafkaAudit":
        """Connect. Raises StartUpTimeoutError naming the address."""
        self._topics.start()
        try:
            self._client = KafkaAdminClient(
                **client_options(self._kafka, start_timeout_seconds=self._start_timeout_seconds)
            )
        except KafkaError as error:
            self._topics.close()
            raise translate_start(error, self._kafka, self._start_timeout_seconds) from error
        return self

    def close(self) -> None:
        """Disconnect."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
        self._topics.close()

    def offsets(self, topics: Collection[str], edge: Edge) -> dict[tuple[str, int], int]:
        """Read one edge of every partition of these topics."""
        spec, isolation = _EDGES[edge]
        request = {TopicPartition(*partition): spec for partition in self._topics.partitions(topics)}
        try:
            found = self._client.list_partition_offsets(request, isolation_level=isolation)
        except KafkaError as error:
            raise translate(error, f"read offsets at {self._kafka.bootstrap}") from error
        return {(place.topic, place.partition): entry.offset for place, entry in found.items()}

    def read(self, topics: Collection[str], since: Offsets) -> Iterator[Record]:
        """Read committed records from `since`, or the oldest, to where the topics end now, in order by partition."""
        with RecordReader(self._kafka, list(topics), start=since) as reader:
            yield from reader.read_until(reader.end_offsets(), timeout_seconds=_PROGRESS_SECONDS)

    def follow(self, topics: Collection[str], since: Offsets) -> RecordReader:
        """Open a read_committed reader at `since`, or the oldest records."""
        return RecordReader(self._kafka, list(topics), start=since).start()

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Read what a group has committed; partitions without a commit are absent."""
        return self._topics.committed_offsets(group)

    def describe_open_transactions(self, partitions: Collection[tuple[str, int]]) -> list[str]:
        """Describe transactions that are open in these partitions, one line each."""
        try:
            states = self._client.describe_producers([TopicPartition(*partition) for partition in partitions])
            names = {
                listing.producer_id: listing.transactional_id
                for listings in self._client.list_transactions().values()
                for listing in listings
            }
        except KafkaError as error:
            raise translate(error, f"describe transactions at {self._kafka.bootstrap}") from error
        return [
            f"{place.topic}-{place.partition}: {names.get(producer.producer_id, 'unknown producer')}"
            f" (id {producer.producer_id}, epoch {producer.producer_epoch})"
            f" open since offset {producer.current_transaction_start_offset}"
            for place, state in sorted(states.items())
            for producer in state.active_producers
            if (producer.current_transaction_start_offset or -1) >= 0
        ]
