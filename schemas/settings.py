"""Every setting, in one frozen tree: one YAML file plus `HEADRACE_*` variables, which win over the file.

`HEADRACE_KAFKA__BOOTSTRAP=host:9092` sets `kafka.bootstrap`; `HEADRACE_CONFIG` names the file. Unknown names are
refused in both places.
"""

import enum
import os
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.connection_settings import KafkaSettings, RedisSettings, SecurityProtocol, TopicSettings
from schemas.serving_settings import BatchingSettings, CacheSettings, ImportPath, ModelSettings
from schemas.settings_group import MIB, SettingsGroup
from schemas.store_settings import StoreSettings

__all__ = [
    "CONFIG_VARIABLE",
    "ENV_PREFIX",
    "MIB",
    "URGENT_SLOTS",
    "BatchingSettings",
    "CacheSettings",
    "Delivery",
    "HealthSettings",
    "ImportPath",
    "KafkaSettings",
    "LimitSettings",
    "LogSettings",
    "ModelSettings",
    "RedisSettings",
    "SecurityProtocol",
    "Settings",
    "StoreSettings",
    "TopicSettings",
    "WorkerSettings",
    "cores",
    "instances_per_member",
    "urgent_slots",
]

ENV_PREFIX = "HEADRACE_"
CONFIG_VARIABLE = "HEADRACE_CONFIG"

_ENVELOPE_BYTES = 8192


class LimitSettings(SettingsGroup):
    """Checked before anything of that size is allocated."""

    payload_bytes: int = Field(8 * MIB, ge=1, le=1 << 30)
    """Largest payload of a request."""
    key_bytes: int = Field(64 * 1024, ge=1, le=16 * MIB)
    """Largest key of a request."""
    header_bytes: int = Field(64 * 1024, ge=1, le=MIB)
    """Most bytes of all headers of a request together."""
    pixels: int = Field(25_000_000, ge=1)
    """Most pixels of an image, known from its header."""
    elements: int = Field(50_000_000, ge=1)
    """Most elements of a tensor, known from its header."""
    json_depth: int = Field(64, ge=1, le=500)
    """Deepest nesting of a JSON payload."""
    result_bytes: int = Field(900 * 1024, ge=1024, le=1 << 30)
    """Largest result or dead letter value; must fit `max.message.bytes` of those topics."""

    @property
    def outcome_bytes(self) -> int:
        """The most that a result or dead letter takes as a whole, with key, headers and framing."""
        return self.result_bytes + max(self.key_bytes, self.header_bytes) + _ENVELOPE_BYTES


class Delivery(enum.StrEnum):
    """What a kill may cost."""

    EXACTLY_ONCE = "exactly_once"
    """Results, dead letters and offsets in one transaction: read_committed readers see each outcome once."""
    AT_LEAST_ONCE = "at_least_once"
    """Offsets are committed after delivery: a kill may repeat outcomes, never lose one."""


class WorkerSettings(SettingsGroup):
    """One `headrace worker`: a supervisor, its group members and their model processes."""

    group: str = Field("headrace", pattern=r"^[A-Za-z0-9._-]{1,200}$")
    """The consumer group; with the slot it is also the transactional id."""
    name: str = Field("worker", pattern=r"^[A-Za-z0-9._-]{1,100}$")
    """Must differ between hosts of one group: with the slot number it is the member's identity."""
    members: int = Field(1, ge=1, le=64)
    """Group members of this worker, each with its own model processes."""
    delivery: Delivery = Delivery.EXACTLY_ONCE
    """What a kill may cost."""
    start_from: Literal["earliest", "latest"] = "earliest"
    """Where a partition begins that has no committed offset."""
    commit_interval_ms: int = Field(100, ge=1, le=10_000)
    """Outcomes become visible at the latest after this, and sooner while a model is idle: what keeps commits cheap."""
    session_timeout_ms: int = Field(6000, ge=1000, le=300_000)
    """A member that is silent for so long loses its partitions."""
    max_poll_interval_ms: int = Field(60_000, ge=2000)
    """A member whose loop does not poll for so long loses its partitions."""
    transaction_timeout_ms: int = Field(10_000, ge=1000, le=900_000)
    """The broker aborts a transaction that is open for longer."""
    drain_seconds: float = Field(10.0, gt=0)
    """Longest wait for work in flight when partitions are taken away or on SIGTERM."""
    queue_bytes: int = Field(64 * MIB, ge=MIB)
    """Request bytes held by one member before it pauses its partitions."""
    shadow_bytes: int = Field(16 * MIB, ge=MIB)
    """Bytes of requests and answers that one member holds for a shadow version; copies beyond that are dropped."""
    start_timeout_seconds: float = Field(60.0, gt=0)
    """How long to wait for Kafka, Redis and topics at start before giving up."""
    max_restarts: int = Field(10, ge=1)
    """Restarts of one slot inside a minute after which the worker gives up with a non-zero exit."""
    warm_spare: bool = True
    """Keep one spare member process per worker (about 60 MB), so that a killed member is replaced at once."""
    state_dir: Path | None = None
    """Slot leases and the last known version; the user's state folder when not given."""

    @model_validator(mode="after")
    def _bounded_drain(self) -> "WorkerSettings":
        if self.session_timeout_ms >= self.max_poll_interval_ms:
            raise ValueError(
                f"session_timeout_ms ({self.session_timeout_ms}) must be below max_poll_interval_ms"
                f" ({self.max_poll_interval_ms})"
            )
        if self.drain_seconds * 1000 > 0.2 * self.max_poll_interval_ms:
            raise ValueError(
                f"drain_seconds ({self.drain_seconds}) must be at most a fifth of max_poll_interval_ms"
                f" ({self.max_poll_interval_ms} ms): a longer drain could cost the membership"
            )
        return self


class HealthSettings(SettingsGroup):
    """The HTTP endpoint with /live, /ready and /metrics."""

    host: str = "127.0.0.1"
    """Address to listen on; anything wider than loopback is logged as a warning."""
    port: int = Field(9464, ge=0, le=65_535)
    """0 picks a free port, which is logged."""


class LogSettings(SettingsGroup):
    """How a process speaks."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level that is logged."""
    format: Literal["auto", "console", "json"] = "auto"
    """auto: console on a terminal, JSON lines elsewhere."""


class Settings(BaseSettings):
    """The whole tree. Built by :func:`schemas.configuration.load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_nested_delimiter="__", frozen=True, extra="forbid", protected_namespaces=()
    )

    kafka: KafkaSettings = KafkaSettings()
    redis: RedisSettings = RedisSettings()
    topics: TopicSettings = TopicSettings()
    store: StoreSettings = StoreSettings()
    model: ModelSettings = ModelSettings()
    batching: BatchingSettings = BatchingSettings()
    cache: CacheSettings = CacheSettings()
    limits: LimitSettings = LimitSettings()
    worker: WorkerSettings = WorkerSettings()
    health: HealthSettings = HealthSettings()
    log: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _consistent(self) -> "Settings":
        if self.limits.payload_bytes > self.batching.max_batch_bytes:
            raise ValueError(
                f"limits.payload_bytes ({self.limits.payload_bytes}) must not exceed batching.max_batch_bytes"
                f" ({self.batching.max_batch_bytes}): such a record could never enter a batch"
            )
        self._check_cache()
        if self.limits.payload_bytes > self.worker.queue_bytes:
            raise ValueError(
                f"limits.payload_bytes ({self.limits.payload_bytes}) must not exceed worker.queue_bytes"
                f" ({self.worker.queue_bytes}): such a record could never be queued"
            )
        return self

    def _check_cache(self) -> None:
        if self.cache.enabled and self.cache.redis and not self.redis.url.get_secret_value():
            raise ValueError("cache.redis needs redis.url, which is not set")
        if self.cache.enabled and self.cache.max_output_bytes > self.limits.result_bytes:
            raise ValueError(
                f"cache.max_output_bytes ({self.cache.max_output_bytes}) must not exceed limits.result_bytes"
                f" ({self.limits.result_bytes}): no answer is that large"
            )


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


URGENT_SLOTS = 2
"""With several lanes, the slots of a model instance that only the most urgent lane may take: while an urgent batch runs
another can wait in front of all others, and none ever waits behind more than the one that runs."""


def urgent_slots(settings: Settings) -> int:
    """Slots of each model instance that are kept for urgent batches, beside `batching.slots`."""
    return URGENT_SLOTS if len(settings.topics.lanes) > 1 else 0


def instances_per_member(settings: Settings) -> int:
    """Replicas of the model in one member: as given, or the cores divided among members and intra-op threads."""
    if settings.model.instances is not None:
        return settings.model.instances
    return max(1, cores() // (settings.worker.members * settings.model.threads))
