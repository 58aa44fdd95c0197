"""What the topics of a pipeline must look like, and how an existing topic differs from that."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from producers.record_size import count_record_bytes
from schemas.settings import LimitSettings, TopicSettings
from schemas.shadow_records import MAX_SHADOW_BYTES

LOG_APPEND_TIME = "LogAppendTime"
_COMPACT = "compact"
_ERROR_HEADER_BYTES = 16 * 1024
"""Room for the headers that a dead letter adds to those of its request."""


@dataclass(frozen=True)
class TopicPlan:
    """A topic as `headrace topics create` makes it."""

    name: str
    partitions: int
    replication: int
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TopicDescription:
    """A topic as the broker describes it; `partitions` is 0 when it does not exist."""

    name: str
    partitions: int
    replication: int = 0
    timestamp_type: str = ""
    max_message_bytes: int | None = None
    """None when this client may not read the topic's configuration."""
    retention_ms: int | None = None
    cleanup_policy: str = ""

    @property
    def exists(self) -> bool:
        """Whether the broker knows the topic."""
        return self.partitions > 0


@dataclass(frozen=True)
class TopicReport:
    """What came of asking for one topic: created now, or there already with these differences."""

    name: str
    created: bool
    differences: tuple[str, ...] = ()


def plan_topics(
    topics: TopicSettings,
    limits: LimitSettings,
    *,
    partitions: int,
    replication: int,
    retention_ms: int | None = None,
) -> tuple[TopicPlan, ...]:
    """Plan request, result, dead-letter and shadow topics, sized to the limits, and the compacted control topic.

    Request topics are stamped by the broker: append time is what an exact version cut is made of, so it is not a choice
    here. The control topic has one partition, which gives its records one order, and is kept for ever.
    """
    around = count_record_bytes(None, None, ()) + limits.key_bytes + limits.header_bytes
    kept = {} if retention_ms is None else {"retention.ms": str(retention_ms)}
    request = {
        "message.timestamp.type": LOG_APPEND_TIME,
        "max.message.bytes": str(limits.payload_bytes + around),
        **kept,
    }
    result = {"max.message.bytes": str(limits.result_bytes + around), **kept}
    dead_letter = {"max.message.bytes": str(limits.result_bytes + around + _ERROR_HEADER_BYTES), **kept}
    shadow = {"max.message.bytes": str(MAX_SHADOW_BYTES + around), **kept}
    return (
        *(TopicPlan(name, partitions, replication, request) for name in topics.requests),
        TopicPlan(topics.results, partitions, replication, result),
        TopicPlan(topics.dead_letters, partitions, replication, dead_letter),
        TopicPlan(topics.shadow, partitions, replication, shadow),
        TopicPlan(topics.control, 1, replication, {"cleanup.policy": _COMPACT}),
    )


def find_differences(plan: TopicPlan, found: TopicDescription) -> tuple[str, ...]:
    """Say how an existing topic falls short of its plan. More than planned is no difference."""
    differences = []
    if found.partitions < plan.partitions:
        differences.append(f"{found.partitions} partitions instead of {plan.partitions}")
    if 0 < found.replication < plan.replication:
        differences.append(f"replication {found.replication} instead of {plan.replication}")
    wanted = plan.configs.get("message.timestamp.type")
    if wanted and found.timestamp_type and found.timestamp_type != wanted:
        differences.append(f"message.timestamp.type {found.timestamp_type} instead of {wanted}")
    size = plan.configs.get("max.message.bytes")
    if size is not None and found.max_message_bytes is not None and found.max_message_bytes < int(size):
        differences.append(f"max.message.bytes {found.max_message_bytes} instead of {size}")
    if _COMPACT in plan.configs.get("cleanup.policy", ""):
        if found.cleanup_policy and found.cleanup_policy != _COMPACT:
            differences.append(f"cleanup.policy {found.cleanup_policy} would drop records that are still needed")
    elif _COMPACT in found.cleanup_policy:
        differences.append("cleanup.policy compact would drop records with equal keys")
    return tuple(differences)


def count_partitions(found: Sequence[TopicDescription]) -> dict[str, int]:
    """Map each existing topic to its number of partitions."""
    return {topic.name: topic.partitions for topic in found if topic.exists}
