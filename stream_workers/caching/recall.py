"""What the worker asks of a result cache, what that asks of others, and the cache while it is off: contracts only."""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from stream_workers.batching.work import PartitionKey, ServedVersion, WorkItem


class Found(enum.StrEnum):
    """What a cache had for a record that was looked up."""

    LOCAL = "local"
    """An answer in this member's memory."""
    REDIS = "redis"
    """An answer in Redis."""
    WAITED = "waited"
    """Another record in flight that will bring the answer."""
    MISS = "miss"
    """Nothing: the model answers it."""
    BYPASSED = "bypassed"
    """It was not looked up, since too little was found of late."""
    UNDECLARED = "undeclared"
    """It was not looked up, since the model class does not declare `cacheable`."""


@dataclass(slots=True)
class Recalled:
    """What became of records that were looked up. Those in neither list wait inside for the answer of another one."""

    answered: list[WorkItem] = field(default_factory=list)
    """They have their outcome now."""
    to_queue: list[WorkItem] = field(default_factory=list)
    """The model must answer them; those of one partition in offset order."""


class AnswerMaker(Protocol):
    """Who answers what the cache cannot; see :class:`stream_workers.pipeline.contract.ModelPool`."""

    def answer_identity(self, version: ServedVersion | None = None) -> bytes:
        """What would make the answers of a version, empty when they must not be kept or the version is not loaded."""


class RemoteAnswers(Protocol):
    """Answers kept outside; see :class:`stream_workers.answer_courier.AnswerCourier`. Nothing here waits."""

    def ask(self, keys: Sequence[bytes]) -> bool:
        """Ask for answers; False when that is no use now."""

    def take_replies(self) -> list[tuple[bytes, bytes | None]]:
        """Return what has come: key and output, or None for a miss."""

    def put(self, key: bytes, output: bytes) -> None:
        """Keep an answer, if there is room to carry it."""

    def take_faults(self) -> Mapping[str, int]:
        """Return what went wrong since the last call, counted by reason."""


class NoAnswerCache:
    """The cache while it is off: everything is for the model. Also what the worker asks of a cache."""

    @property
    def holds(self) -> bool:
        """True while a `sweep` may have something to hand out."""
        return False

    def look_up(self, items: Sequence[WorkItem], now: float) -> Recalled:
        """Give known answers to admitted records without an outcome, as their outcome; sort out the others."""
        del now
        return Recalled([], list(items))

    def sweep(self, now: float) -> Recalled:
        """Hand out records whose wait inside is over."""
        del now
        return Recalled()

    def note_answers(self, items: Sequence[WorkItem], now: float) -> list[WorkItem]:
        """Take note of records that have their outcome, whatever it is; returns others that are answered by that."""
        del items, now
        return []

    def drop(self, partition: PartitionKey) -> None:
        """Forget the records of a partition that was taken away; who waited for one of them is handed out."""
