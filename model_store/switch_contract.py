"""What a switch needs from outside, and how it ends."""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from model_store.switch_decisions import WorkerProgress
from model_store.timeline import Timeline, TimelineEntry
from model_store.worker_reports import Candidate, Roster


class TimelineDoor(Protocol):
    """See :class:`model_store.live_versions.LiveVersions`."""

    def read(self, model: str) -> Timeline | None:
        """Return the model's timeline."""

    def move(self, model: str, change: Callable[[Timeline], Timeline], *, replace: bool = False) -> Timeline:
        """Store what `change` makes of the timeline."""


class WorkersDoor(Protocol):
    """See :class:`model_store.live_workers.LiveWorkers`."""

    def propose_candidate(self, model: str, candidate: Candidate) -> None:
        """Ask all workers to prepare."""

    def renew_candidate(self, model: str, candidate: Candidate) -> bool:
        """Keep it alive."""

    def withdraw_candidate(self, model: str, candidate_id: str) -> None:
        """Take it away."""

    def read_workers(self, model: str) -> Roster:
        """Return what the live workers report."""


@dataclass(frozen=True)
class SwitchClock:
    """Where a switch has its time from."""

    now_ms: Callable[[], int]
    """Epoch ms, for what is stored."""
    monotonic: Callable[[], float]
    """Seconds, for how long things take."""
    pause: Callable[[float], None]
    """Waits so many seconds."""


class SwitchResult(enum.Enum):
    """How a switch ended."""

    DONE = "done"
    """It is stored, and every live worker acts on it."""
    UNCONFIRMED = "unconfirmed"
    """It is stored, is one from now on, and some worker has not said yet that it acts on it."""
    REFUSED = "refused"
    """Nothing was changed."""
    CALLED_OFF = "called off"
    """It was stored and taken back before its instant: no record meets it."""
    UNSTOPPED = "not called off"
    """It is stored, not every worker is armed, and it could not be taken back in time."""


@dataclass(frozen=True)
class SwitchView:
    """What goes on at one moment of a switch."""

    stage: str
    """The step that is being taken, the same text for as long as it takes."""
    seconds_left: float = 0.0
    """For this step, before it is given up."""
    rows: tuple[WorkerProgress, ...] = ()


@dataclass(frozen=True)
class SwitchOutcome:
    """What became of a switch."""

    result: SwitchResult
    entry: TimelineEntry | None
    """The decision, None when there was none."""
    workers: int
    """How many lived at the last look."""
    reason: str = ""
    """For every result but done: who and why."""
