"""When the next item of a stream is due."""

from dataclasses import dataclass

_FORGIVEN_SECONDS = 1.0


@dataclass
class Pace:
    """Spaces items evenly at `fps`; None means as fast as possible. Knows no clock: times are passed in.

    A stream that falls behind catches up; once it is more than a second behind, the debt is forgiven, so that a pause
    of the receiver is not followed by a burst.
    """

    fps: float | None
    _next_due: float | None = None

    def delay(self, now: float) -> float:
        """Tell how many seconds to wait before the next item, and count that item as sent then."""
        if self.fps is None:
            return 0.0
        due = now if self._next_due is None or now - self._next_due > _FORGIVEN_SECONDS else self._next_due
        self._next_due = due + 1 / self.fps
        return max(0.0, due - now)
