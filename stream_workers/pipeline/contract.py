"""What the group member asks of model processes and what comes back. Values only: no socket, process or tensor here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from schemas.records import Stage
from stream_workers.batching.work import Batch, ServedVersion


@dataclass(frozen=True, slots=True)
class RecordRefused:
    """One record that the model class or the codec refused; the rest of its batch is not touched."""

    stage: Stage
    code: str
    error_class: str
    message: str


@dataclass(frozen=True, slots=True)
class RecordExpired:
    """The record's deadline had passed when its batch began: it never reached the model."""


RecordOutcome = bytes | RecordRefused | RecordExpired
"""One record's answer is its JSON text itself: no object per record on the hot path."""


@dataclass(frozen=True, slots=True)
class BatchAnswered:
    """The batch ran: one outcome per record, in the order of `batch.items`."""

    batch: Batch
    outcomes: Sequence[RecordOutcome]
    version: ServedVersion
    model_ms: float
    stages_ms: Sequence[float] = ()
    """Preprocess and collate; copy and forward; postprocess and JSON. Empty when they were not measured."""
    padded: int = 0
    """Rows that the model computed for nobody, to fill a size bucket."""


@dataclass(frozen=True, slots=True)
class BatchRaised:
    """The batch as a whole failed: collate, forward or postprocess raised, or the answers did not fit the records."""

    batch: Batch
    stage: Stage
    error_class: str
    message: str
    version: ServedVersion


@dataclass(frozen=True, slots=True)
class BatchLost:
    """The model process ended with the batch in hand.

    `answered` holds the outcomes that had arrived (isolated mode), for the first `len(answered)` records. `suspect` is
    False when the process neither ran nor prepared this batch, so it cannot be to blame. `culprit` is the index of the
    record that was being worked on, where that is known: not while a second batch was being prepared, since nobody
    knows then which of the two it was. `code` is `model_crashed`, `model_timeout` or `model_out_of_memory`.
    """

    batch: Batch
    answered: Sequence[RecordOutcome]
    suspect: bool
    culprit: int | None
    code: str
    detail: str
    version: ServedVersion


BatchOutcome = BatchAnswered | BatchRaised | BatchLost


@dataclass(frozen=True, slots=True)
class Refusal:
    """A candidate that will not be ready, and why. `id` names the preparation."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Residency:
    """What the slot's model processes hold, apart from what they do. Versions by name."""

    loaded: tuple[str, ...] = ()
    """Ready to take batches, with as many processes as are to serve them."""
    preparing: str | None = None
    """Id of the preparation that is going on."""
    ready: str | None = None
    """Id of the preparation that has come to its end: all its versions are loaded, warm and checked."""
    refused: Refusal | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    """Versions that are wanted and cannot be loaded, with the reason."""
    shadow: str = ""
    """The version that runs for nobody, or is loaded to; empty for none."""
    shadow_state: str = ""
    """`runs` or `loading`; without one, why what was asked for does not run."""


class ShadowPool(Protocol):
    """The model processes of a shadow, which no batch of a `ModelPool` ever meets."""

    def has_idle_instance(self) -> bool:
        """True when a process of the active version has nothing to do."""
        ...

    def residency(self) -> Residency:
        """Return what is loaded, and what is not."""
        ...

    def holds_shadow(self, version: str) -> bool:
        """True while processes of the version run for nobody, or are about to."""
        ...

    def is_shadow_ready(self, version: str) -> bool:
        """True while one of them is loaded."""
        ...

    def count_shadow_slots(self, version: str) -> int:
        """Copies, by the batch, that may be submitted now; 0 while no process has loaded the version."""
        ...

    def submit_copy(self, batch: Batch, now: float) -> None:
        """Have a shadow run a batch. Only while `count_shadow_slots` of its version is above zero."""
        ...

    def take_copies(self) -> list[BatchOutcome]:
        """Return the batches of shadows that ended since the last call."""
        ...


class ModelPool(Protocol):
    """The member's view of its model processes. Where no version is given, the active one is meant.

    Versions are told apart by name: a new epoch of a version that is loaded is the same version.
    """

    def count_free_slots(self, priority: int = 0, version: ServedVersion | None = None) -> int:
        """Batches of this priority that may be submitted now. This permission is the back-pressure."""
        ...

    def has_idle_instance(self, version: ServedVersion | None = None) -> bool:
        """True when a loaded model process has nothing to do."""
        ...

    def has_instances(self, version: ServedVersion | None = None) -> bool:
        """True when at least one model process is attached and loaded."""
        ...

    def active_version(self) -> ServedVersion | None:
        """The main version that was asked for, once it is loaded; before that the one before it, None for none."""
        ...

    def resident(self) -> frozenset[str]:
        """Names of the versions that a batch could be submitted to, sooner or later, without another load."""
        ...

    def residency(self) -> Residency:
        """Return what is loaded, and what is not, for others to know."""
        ...

    def answer_identity(self, version: ServedVersion | None = None) -> bytes:
        """What would make the answers of a version; empty when its class does not declare `cacheable`.

        Equal for processes, members and hosts whose answers to one payload are equal.
        """
        ...

    def precision_of(self, version: str) -> str:
        """What a version computes in, as its manifest says, once a process of it was ready; empty before.

        May be called from any thread.
        """
        ...

    def submit(self, batch: Batch, now: float) -> None:
        """Write the batch's payloads into a free slot of a process of its version and start it.

        Only while `count_free_slots(batch.priority, batch.version)` is above zero.
        """
        ...

    def collect(self, timeout_seconds: float, now: float) -> list[BatchOutcome]:
        """Wait at most `timeout_seconds` for anything to arrive and return every batch that ended."""
        ...


class MemberPool(ModelPool, ShadowPool, Protocol):
    """All model processes of a member."""

    def has_idle_instance(self, version: ServedVersion | None = None) -> bool:
        """True when a loaded model process has nothing to do."""
        ...
