"""What a worker believes about the active version: the last good timeline, and how long ago it was confirmed.

Pure state: the caller reads Redis and the clock. Bad news never moves it: a lower epoch, a rewritten one, an emptied
key and an unreadable value are counted and what was known holds.
"""

from dataclasses import dataclass

from model_store.timeline import Timeline


@dataclass
class PointerCounts:
    """How often a read did not move the pointer although it was not simply unchanged."""

    lower_epochs: int = 0
    """The stored epoch is below the known one: a restored snapshot or a stale replica."""
    rewritten_epochs: int = 0
    """The stored decision has the known epoch and another content."""
    missing: int = 0
    """There was a timeline and now there is none."""
    invalid: int = 0
    """The stored value is not a timeline."""
    unavailable: int = 0
    """Redis did not answer."""


class PointerWatch:
    """Feed it every read; it says when the timeline moved. `now` is any monotonic clock in seconds."""

    def __init__(self, now: float, known: Timeline | None = None) -> None:
        self.known = known if known is not None and known.entries else None
        self.counts = PointerCounts()
        self._confirmed = now

    def observe(self, stored: Timeline | None, now: float) -> Timeline | None:
        """Take in what was read. Returns the timeline when it moved on, else None."""
        if stored is None or not stored.entries:
            if self.known is not None:
                self.counts.missing += 1
            else:
                self._confirmed = now
            return None
        known_epoch = self.known.epoch if self.known is not None else 0
        if stored.epoch < known_epoch:
            self.counts.lower_epochs += 1
            return None
        if self.known is not None and stored.epoch == known_epoch:
            if stored.latest != self.known.latest:
                self.counts.rewritten_epochs += 1
            else:
                self._confirmed = now
            return None
        self.known, self._confirmed = stored, now
        return stored

    def observe_invalid(self) -> None:
        """Take in that the stored value is not a timeline."""
        self.counts.invalid += 1

    def observe_unavailable(self) -> None:
        """Take in that Redis did not answer."""
        self.counts.unavailable += 1

    def stale_seconds(self, now: float) -> float:
        """Seconds since the known timeline was last confirmed by a read; never negative."""
        return max(0.0, now - self._confirmed)
