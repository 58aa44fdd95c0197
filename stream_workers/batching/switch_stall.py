"""How long a switch kept a member from starting batches. Pure: the caller has the clock.

A switch is open from its adoption to the first batch that starts under it. In between two things keep batches from
starting: the adoption itself, during which the main thread does nothing else, and the times in which work waits and all
of it for a version that is not loaded or for a look at the pointer.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Met:
    """A switch was met: the first batch under it has started."""

    epoch: int
    stalled_seconds: float
    after_seconds: float
    """From the adoption to that batch; with an exact switch most of it lies before its instant."""


class SwitchStall:
    """The newest switch of one member that no batch has met yet. Not thread-safe: one thread owns it."""

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._adopted_at = self._stalled_seconds = 0.0
        self._blocked_since: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether a switch waits for its first batch."""
        return self._epoch is not None

    def open(self, epoch: int, began_at: float, ended_at: float) -> None:
        """A decision was adopted. What one before it has cost, and no batch has met, counts for this one."""
        if not self.is_open:
            self._stalled_seconds, self._blocked_since = 0.0, None
        self._epoch, self._adopted_at = epoch, began_at
        if self._blocked_since is None:
            self._stalled_seconds += ended_at - began_at

    def note_turn(self, now: float, *, is_blocked: bool) -> None:
        """A turn of the loop: whether work waits and none of it can start, for want of a version or of a look."""
        if self._blocked_since is not None:
            self._stalled_seconds += now - self._blocked_since
        self._blocked_since = now if is_blocked else None

    def close(self, epoch: int, now: float) -> Met | None:
        """A batch starts under `epoch`; returns the switch when it is the first under it, or under a later one."""
        if self._epoch is None or epoch < self._epoch:
            return None
        self.note_turn(now, is_blocked=False)
        # A turn has one time for all of it, taken before it adopted anything.
        met = Met(self._epoch, self._stalled_seconds, max(0.0, now - self._adopted_at))
        self._epoch = None
        return met
