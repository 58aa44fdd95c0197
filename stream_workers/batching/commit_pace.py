"""Decides when what is written becomes visible: a commit costs the same for one outcome as for thousands. Pure.

While the models are busy, a commit per interval: more often would take cores from them and win nothing. While a model
is idle or the outcome is urgent, sooner, yet never for more than `busy_share` of the time: the next commit begins no
earlier than `cost · (1 / busy_share - 1)` after the end of the last, `cost` being what the last ones took.
"""

_GAIN = 1 / 4


class CommitPace:
    """Knows what commits cost. Not thread-safe: one thread owns it."""

    def __init__(self, interval_seconds: float, busy_share: float = 0.2) -> None:
        self._interval = interval_seconds
        self._rest_factor = 1 / busy_share - 1
        self._cost = 0.0
        self._ended_at = float("-inf")

    def note(self, seconds: float, now: float) -> None:
        """Take in one commit that ended at `now`."""
        self._cost = seconds if self._cost == 0 else self._cost + _GAIN * (seconds - self._cost)
        self._ended_at = now

    def due_at(self, opened_at: float, *, soon: bool) -> float:
        """Return when a group of outcomes that was opened then is to be committed, in monotonic seconds."""
        latest = opened_at + self._interval
        if not soon:
            return latest
        return min(latest, max(opened_at, self._ended_at + self._rest_factor * self._cost))
