"""What must be true of the cluster before a worker starts: reachable, topics there, and outcomes fit them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from schemas.errors import ConfigurationError, StartUpTimeoutError, UnavailableError
from schemas.settings import Settings
from stream_workers.kafka.client_config import connection_config

LOG_APPEND_TIME = "LogAppendTime"
_CALL_TIMEOUT_SECONDS = 5.0
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What a worker needs to know of its topics."""

    partition_counts: Mapping[str, int]
    """By topic: requests, results and dead letters."""
    warnings: tuple[str, ...] = ()
    """What works and promises less, a sentence each."""


def await_cluster(
    settings: Settings, give_up_at: float, on_wait: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> ClusterFacts:
    """Wait until Kafka answers and every topic is there; `on_wait` is told per try what is missing.

    Raises StartUpTimeoutError after `give_up_at`, and at once ConfigurationError for topics that can never work.
    """
    complaint = _LastComplaint()
    admin = AdminClient(connection_config(settings.kafka, "headrace-start-up") | {"error_cb": complaint})
    while True:
        try:
            return _check_cluster(admin, settings, complaint)
        except UnavailableError as error:
            if clock() >= give_up_at:
                raise StartUpTimeoutError(str(error)) from error
            on_wait(str(error))
            time.sleep(_RETRY_SECONDS)


class _LastComplaint:
    """What the client said last of a connection: a name that does not resolve, a port that refuses, a login."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.text = error.str()


def _check_cluster(admin: AdminClient, settings: Settings, complaint: _LastComplaint) -> ClusterFacts:
    """Look once. Raises UnavailableError for what may come yet, ConfigurationError for what cannot work."""
    topics = settings.topics
    follows = settings.model.version is None
    wanted = [*topics.requests, topics.results, topics.dead_letters, *([topics.control] if follows else [])]
    try:
        known = admin.list_topics(timeout=_CALL_TIMEOUT_SECONDS).topics
        missing = [name for name in wanted if name not in known or known[name].error is not None]
        if missing:
            raise UnavailableError(
                f"missing topics: {', '.join(missing)}; `headrace topics create` makes them with the right settings"
            )
        _check_sizes(admin, settings)
        warnings = _find_weak_cuts(admin, settings) if follows else ()
    except KafkaException as error:
        admin.poll(0)  # the client's complaints come with its callbacks
        reason = complaint.text or error.args[0].str()
        raise UnavailableError(f"Kafka at {settings.kafka.bootstrap} does not answer: {reason}") from error
    return ClusterFacts({name: len(known[name].partitions) for name in wanted}, warnings)


def _check_sizes(admin: AdminClient, settings: Settings) -> None:
    largest = settings.limits.outcome_bytes
    outputs = (settings.topics.results, settings.topics.dead_letters)
    for name, config in _read_configs(admin, outputs).items():
        limit = int(config["max.message.bytes"].value)
        if limit < largest:
            raise ConfigurationError(
                f"topic {name}: max.message.bytes is {limit}, but limits.result_bytes plus key and headers may"
                f" take {largest}; raise the one, or lower limits.result_bytes to"
                f" {max(0, limit - largest + settings.limits.result_bytes)}"
            )


def _find_weak_cuts(admin: AdminClient, settings: Settings) -> tuple[str, ...]:
    """Say where switches of versions are less exact, or remembered for less long, than they could be."""
    topics, found = settings.topics, []
    for name, config in _read_configs(admin, topics.requests).items():
        kind = config["message.timestamp.type"].value
        if kind != LOG_APPEND_TIME:
            found.append(
                f"topic {name}: message.timestamp.type is {kind}, so exact switches are only as good as the clocks of"
                f" its producers; {LOG_APPEND_TIME} makes them exact"
            )
    policy = _read_configs(admin, (topics.control,))[topics.control]["cleanup.policy"].value
    if policy != "compact":
        found.append(f"topic {topics.control}: cleanup.policy is {policy}, so cuts are forgotten; compact keeps them")
    return tuple(found)


def _read_configs(admin: AdminClient, names: Sequence[str]) -> dict[str, Any]:
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    futures = admin.describe_configs(resources, request_timeout=_CALL_TIMEOUT_SECONDS)
    return {resource.name: future.result() for resource, future in futures.items()}
