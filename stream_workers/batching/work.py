"""The units of work inside a worker: a record on its way, a batch of them, and what became of each."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from schemas.records import ErrorDetail, Request, Timings

PartitionKey = tuple[str, int]
"""Topic and partition number."""
ShapeKey = bytes | str | tuple[bytes | str, int]
"""What records of one batch have in common; with length buckets, which bucket too."""


class ServedVersion(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """One version of the served model and the epoch of the decision that makes it answer."""

    model: str
    version: str
    """Empty while the decision is known by its epoch alone."""
    epoch: int


NO_VERSION = ServedVersion("", "", 0)


class Answer(msgspec.Struct, frozen=True, gc=False):
    """The model answered: `output` is JSON text."""

    output: bytes
    version: ServedVersion
    timings: Timings


class Expired(msgspec.Struct, frozen=True, gc=False):
    """The deadline passed before an answer could be had."""

    version: ServedVersion
    timings: Timings


class Superseded(msgspec.Struct, frozen=True, gc=False):
    """A newer record of its stream was waiting too, and `batching.overload` is `drop_oldest`."""

    version: ServedVersion
    timings: Timings


class Rejected(msgspec.Struct, frozen=True, gc=False):
    """The record becomes a dead letter."""

    error: ErrorDetail
    version: ServedVersion


class Skipped(msgspec.Struct, frozen=True, gc=False):
    """A tombstone: it moves the frontier and is answered by nothing."""


Outcome = Answer | Expired | Superseded | Rejected | Skipped


class WorkItem(msgspec.Struct, gc=False, eq=False):
    """One record from its poll to its commit. Mutable: only the worker's main thread writes to it."""

    request: Request
    assignment: int
    """The assignment epoch of its partition: what arrives late from an earlier one is fenced by this number."""
    polled_at: float
    """Monotonic seconds."""
    shape_key: ShapeKey
    payload_bytes: int
    priority: int = 0
    """Of its lane: 0 is the most urgent."""
    cost: float = 0.0
    """By `batching.cost`; 0 where none is set."""
    attempts: int = 0
    """Runs that failed with this record on board."""
    lone_failures: int = 0
    queued: bool = False
    """True while it counts in its queue: until it enters a batch, is answered or goes with its partition."""
    version: ServedVersion = NO_VERSION
    """What it meets. While it is queued a switch can change that; in a batch it is pinned."""
    outcome: Outcome | None = None


def unbatched_timings(item: WorkItem, now: float) -> Timings:
    """Return the timings of a record that never entered a batch."""
    return Timings(queue_ms=round(max(0.0, now - item.polled_at) * 1000, 3), model_ms=0.0, batch_size=0)


class ReleaseReason(enum.StrEnum):
    """Why a batch left its queue."""

    FULL = "full"
    COST = "cost"
    TIMEOUT = "timeout"
    URGENT = "urgent"
    """A record of the most urgent of several lanes, as soon as a slot was free."""
    DRAIN = "drain"
    RETRY = "retry"
    """Part of a failed batch, run again."""


class RunMode(enum.StrEnum):
    """How a model process runs a batch."""

    TOGETHER = "together"
    ISOLATED = "isolated"
    """One record at a time, each answer sent at once: after a crash the next one names its culprit exactly."""


@dataclass(slots=True, eq=False)
class Batch:
    """Records that meet the model together, of one shape and one version."""

    id: int
    items: Sequence[WorkItem]
    reason: ReleaseReason
    version: ServedVersion
    """Pinned: every run of these records meets it, whatever is active by then."""
    mode: RunMode = RunMode.TOGETHER
    priority: int = 0
    """Of its lane: 0 is the most urgent."""
    submitted_at: float = 0.0
    is_copy: bool = False
    """For a shadow: its records have their answers already, and what comes of it answers nobody."""
    payload_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.payload_bytes = sum(item.payload_bytes for item in self.items)


@dataclass(frozen=True, slots=True)
class Rerun:
    """Records of a batch that failed, to run again under the version that they have met."""

    items: Sequence[WorkItem]
    mode: RunMode
    version: ServedVersion
