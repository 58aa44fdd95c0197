"""What a canary needs from outside, what it shows, and how it ends."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from model_store.canary.judgment import Step
from model_store.canary.tally import Kind, Tally
from model_store.switch_contract import SwitchResult
from model_store.timeline import TimelineEntry
from schemas.records import DeadLetter, Result


class OutcomeDoor(Protocol):
    """See :class:`producers.result_reader.ResultReader`."""

    def poll(self, timeout_seconds: float) -> Sequence[Result | DeadLetter]:
        """Return the outcomes that have come, in order; wait so long for the first."""

    def check_reachable(self, timeout_seconds: float) -> None:
        """Raise UnavailableError when Kafka does not answer."""


class CanaryResult(enum.Enum):
    """How a canary ended."""

    PROMOTED = "promoted"
    """The version answers alone."""
    HALTED = "halted"
    """It was worse than allowed."""
    STARVED = "stopped"
    """There was too little traffic to decide."""
    INTERRUPTED = "interrupted"
    """Ctrl-C."""
    UNREACHABLE = "given up"
    """Redis or Kafka did not answer for longer than a window."""
    REFUSED = "refused"
    """The workers did not take a stage up."""
    OVERTAKEN = "overtaken"
    """Somebody else moved the active version: their decision stands."""


@dataclass(frozen=True)
class Ending:
    """Why no further stage is taken."""

    result: CanaryResult
    reason: str = ""


@dataclass(frozen=True)
class CanaryOutcome:
    """What became of a canary."""

    ending: Ending
    share: int
    """The stage that was reached or tried last, in percent."""
    entry: TimelineEntry | None
    """The decision that it leaves behind; None when it is somebody else's, or nothing was changed."""
    confirmation: SwitchResult | None = None
    """Whether the workers act on `entry`; None when nobody was asked."""


@dataclass(frozen=True)
class Side:
    """One version's results in a stage, for the eye."""

    version: str
    share: int
    """Percent of the keys."""
    results: int
    expired: int
    dead_lettered: int
    error_rate: float
    p95_ms: float | None
    quality: float | None

    @classmethod
    def of(cls, version: str, share: int, tally: Tally) -> "Side":
        """Sum up a tally."""
        percentile = tally.latencies.find_percentile()
        return cls(
            version,
            share,
            tally.results,
            tally.kinds[Kind.EXPIRED],
            tally.kinds[Kind.DEAD_LETTERED],
            tally.errors / max(1, tally.results),
            None if percentile is None else percentile.estimate,
            tally.quality.mean if tally.quality.count else None,
        )


@dataclass(frozen=True)
class CanaryView:
    """One moment of a stage."""

    stage: int
    """From 1."""
    stages: int
    elapsed_seconds: float
    window_seconds: float
    old: Side
    new: Side
    strays: int
    """Results that another version made than the split names for their key."""
    step: Step
    verdict: str
