"""How far a batch job is."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from schemas.records import Status

REJECTED = "rejected"
"""Answered by a dead letter."""
UNREADABLE = "unreadable"
"""Never sent: the row could not be read, or was refused by a size limit."""


@dataclass(frozen=True)
class Progress:
    """A moment of a job. `rows_per_second` counts this run only; `eta_seconds` is None until it can be told."""

    rows: int
    answered: int
    in_flight: int
    ok: int
    expired: int
    rejected: int
    rows_per_second: float
    eta_seconds: float | None


@dataclass(frozen=True)
class Summary:
    """The end of a job. `published` counts this run; the other counts the whole job."""

    rows: int
    ok: int
    expired: int
    rejected: int
    published: int
    seconds: float
    rows_per_second: float
    output: Path
    rejects: Path

    @property
    def failed(self) -> int:
        """Rows without an ok answer."""
        return self.expired + self.rejected


def count_by_kind(counts: Mapping[str, int]) -> tuple[int, int, int]:
    """Fold the journal's counts into ok, expired and rejected; an unreadable row counts as rejected."""
    rejected = counts.get(REJECTED, 0) + counts.get(UNREADABLE, 0)
    return counts.get(Status.OK, 0), counts.get(Status.EXPIRED, 0) + counts.get(Status.SUPERSEDED, 0), rejected


def measure_progress(
    counts: Mapping[str, int], *, rows: int, in_flight: int, answered_before: int, seconds: float
) -> Progress:
    """Compute a moment from the journal's counts, what was answered before this run, and its seconds so far."""
    ok, expired, rejected = count_by_kind(counts)
    answered = ok + expired + rejected
    rate = (answered - answered_before) / seconds if seconds > 0 else 0.0
    eta = (rows - answered) / rate if rate > 0 else None
    return Progress(rows, answered, in_flight, ok, expired, rejected, rate, eta)
