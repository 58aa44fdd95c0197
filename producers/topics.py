"""The door to Kafka's administration: topics, offsets and lag."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec
from kafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from producers.kafka_connection import Connection, await_broker, client_options, translate, translate_start
from producers.lag import PartitionLag, measure_lag
from producers.topic_layout import TopicDescription, TopicPlan, TopicReport, find_differences, plan_topics
from schemas.errors import ConfigurationError
from schemas.settings import KafkaSettings, LimitSettings, TopicSettings

Offsets = Mapping[tuple[str, int], int]
"""Next offset by topic and partition."""

_CONFIGS = ["message.timestamp.type", "max.message.bytes", "retention.ms", "cleanup.policy"]
_RETRY_PAUSE_SECONDS = 0.1
_T = TypeVar("_T")


class TopicAdmin(Connection):
    """One administrative connection; a context manager. Not for use from several threads at once.

    Every method raises UnavailableError when Kafka does not answer and ConfigurationError when it refuses.
    """

    def __init__(self, kafka: KafkaSettings, *, start_timeout_seconds: float = 30.0) -> None:
        self._kafka = kafka
        self._start_timeout_seconds = start_timeout_seconds
        self._client: Any = None

    def start(self) -> Self:
        """Connect. Raises StartUpTimeoutError naming the address when Kafka does not answer in time."""
        await_broker(self._kafka, self._start_timeout_seconds)
        try:
            self._client = KafkaAdminClient(
                **client_options(self._kafka, start_timeout_seconds=self._start_timeout_seconds)
            )
        except KafkaError as error:
            raise translate_start(error, self._kafka, self._start_timeout_seconds) from error
        return self

    def close(self) -> None:
        """Disconnect."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _ask(self, doing: str, call: Callable[[], _T]) -> _T:
        """Call until it works or the request timeout has passed: a new broker is retriable for its first seconds."""
        deadline = time.monotonic() + self._kafka.request_timeout_ms / 1000
        while True:
            try:
                return call()
            except KafkaError as error:
                if not error.retriable or time.monotonic() > deadline:
                    raise translate(error, f"{doing} at {self._kafka.bootstrap}") from error
            time.sleep(_RETRY_PAUSE_SECONDS)

    def describe(self, names: Iterable[str]) -> tuple[TopicDescription, ...]:
        """Describe topics, in the order given; a missing one has no partitions."""
        names = list(dict.fromkeys(names))
        topics = {
            topic["name"]: topic for topic in self._ask("describe topics", lambda: self._client.describe_topics(names))
        }
        present = [name for name in names if name in topics and topics[name]["partitions"]]
        configs = self._configs(present)
        return tuple(
            _describe(name, topics[name]["partitions"], configs.get(name, {}))
            if name in present
            else TopicDescription(name, 0)
            for name in names
        )

    def _configs(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        if not names:
            return {}
        resources = [ConfigResource(ConfigResourceType.TOPIC, name, _CONFIGS) for name in names]
        found = self._ask(
            "describe configuration", lambda: self._client.describe_configs(resources, config_filter="all")
        )
        return {
            name: {key: entry["value"] for key, entry in entries.items()}
            for name, entries in found.get("topic", {}).items()
        }

    def require(self, names: Iterable[str]) -> tuple[TopicDescription, ...]:
        """Describe topics and raise ConfigurationError that names every missing one."""
        found = self.describe(names)
        missing = [topic.name for topic in found if not topic.exists]
        if missing:
            raise ConfigurationError(
                f"Kafka at {self._kafka.bootstrap} has no topic {', '.join(missing)}: run `headrace topics create`"
            )
        return found

    def max_message_bytes(self, name: str) -> int | None:
        """Tell the limit of an existing topic; None when it may not be read. Raises ConfigurationError when missing."""
        return self.require([name])[0].max_message_bytes

    def create(self, plans: Sequence[TopicPlan]) -> tuple[TopicReport, ...]:
        """Create what is missing; report how topics that exist already differ. Creating twice is no error."""
        existing = {topic.name: topic for topic in self.describe(plan.name for plan in plans)}
        wanted = {
            plan.name: {
                "num_partitions": plan.partitions,
                "replication_factor": plan.replication,
                "configs": plan.configs,
            }
            for plan in plans
            if not existing[plan.name].exists
        }
        if wanted:
            self._create(wanted)
        return tuple(
            TopicReport(plan.name, True)
            if plan.name in wanted
            else TopicReport(plan.name, False, find_differences(plan, existing[plan.name]))
            for plan in plans
        )

    def _create(self, wanted: dict[str, dict[str, Any]]) -> None:
        reply = self._ask("create topics", lambda: self._client.create_topics(wanted, raise_errors=False))
        for topic in reply["topics"]:
            kind = for_code(topic["error_code"])
            if topic["error_code"] and not issubclass(kind, TopicAlreadyExistsError):
                error = kind(topic.get("error_message") or "")
                raise translate(error, f"create topic {topic['name']} at {self._kafka.bootstrap}") from error
        self._ask("wait for topics", lambda: self._client.wait_for_topics(list(wanted)))

    def partitions(self, names: Iterable[str]) -> list[tuple[str, int]]:
        """List topic and partition of existing topics. Raises ConfigurationError when one is missing."""
        return [(topic.name, number) for topic in self.require(names) for number in range(topic.partitions)]

    def end_offsets(self, names: Iterable[str]) -> dict[tuple[str, int], int]:
        """Read the offset that the next record of each partition will get."""
        return self._offsets(self.partitions(names), OffsetSpec.LATEST)

    def start_offsets(self, names: Iterable[str]) -> dict[tuple[str, int], int]:
        """Read the offset of the oldest record that each partition still has."""
        return self._offsets(self.partitions(names), OffsetSpec.EARLIEST)

    def _offsets(self, partitions: Sequence[tuple[str, int]], spec: Any) -> dict[tuple[str, int], int]:
        request = {TopicPartition(*partition): spec for partition in partitions}
        found = self._ask("read offsets", lambda: self._client.list_partition_offsets(request))
        return {(partition.topic, partition.partition): entry.offset for partition, entry in found.items()}

    def committed_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Read what a group has committed; partitions without a commit are absent."""
        found = self._ask("read committed offsets", lambda: self._client.list_group_offsets({group: None}))
        return {
            (partition.topic, partition.partition): entry.offset
            for partition, entry in found.get(group, {}).items()
            if entry.offset >= 0
        }

    def lag(
        self, group: str, names: Iterable[str], *, start_from: Literal["earliest", "latest"] = "earliest"
    ) -> tuple[PartitionLag, ...]:
        """Measure a group's lag by partition, with or without members."""
        partitions = self.partitions(names)
        committed = self.committed_offsets(group)
        starts = self._offsets(partitions, OffsetSpec.EARLIEST)
        ends = self._offsets(partitions, OffsetSpec.LATEST)
        return tuple(
            measure_lag(
                topic,
                number,
                log_start=starts[topic, number],
                end=ends[topic, number],
                committed=committed.get((topic, number)),
                start_from=start_from,
            )
            for topic, number in partitions
        )


def _describe(name: str, partitions: Sequence[Mapping[str, Any]], configs: Mapping[str, str]) -> TopicDescription:
    size, retention = configs.get("max.message.bytes"), configs.get("retention.ms")
    return TopicDescription(
        name=name,
        partitions=len(partitions),
        replication=min(len(partition["replica_nodes"]) for partition in partitions),
        timestamp_type=configs.get("message.timestamp.type", ""),
        max_message_bytes=None if size is None else int(size),
        retention_ms=None if retention is None else int(retention),
        cleanup_policy=configs.get("cleanup.policy", ""),
    )


def create_topics(  # noqa: PLR0913 - what to create, where, and how large
    kafka: KafkaSettings,
    topics: TopicSettings,
    *,
    partitions: int = 4,
    replication: int = 1,
    limits: LimitSettings | None = None,
    retention_ms: int | None = None,
    start_timeout_seconds: float = 30.0,
) -> tuple[TopicReport, ...]:
    """Create the topics of one pipeline where they are missing, and report how existing ones fall short."""
    plans = plan_topics(
        topics, limits or LimitSettings(), partitions=partitions, replication=replication, retention_ms=retention_ms
    )
    with TopicAdmin(kafka, start_timeout_seconds=start_timeout_seconds) as admin:
        return admin.create(plans)


def describe_topics(
    kafka: KafkaSettings, names: Iterable[str], *, start_timeout_seconds: float = 30.0
) -> tuple[TopicDescription, ...]:
    """Describe topics by name; a missing one has no partitions."""
    with TopicAdmin(kafka, start_timeout_seconds=start_timeout_seconds) as admin:
        return admin.describe(names)
