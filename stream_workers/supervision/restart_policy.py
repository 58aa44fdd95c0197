"""When a process that ended is started again, and when to stop trying. Pure."""

from collections import deque

WINDOW_SECONDS = 60.0
FIRST_WAIT_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 5.0


class RestartPolicy:
    """At once the first time, then with doubled waits, and after `max_restarts` within a minute not any more."""

    def __init__(self, max_restarts: int) -> None:
        self._max_restarts = max_restarts
        self._ends: deque[float] = deque()
        self.restarts = 0
        """All that were allowed, ever: for the metrics."""

    def wait_before_restart(self, now: float, *, was_useful: bool = False) -> float | None:
        """The process ended at `now`: return the seconds to wait, or None to give up.

        One that `was_useful` got work done before it ended, so its successor will too: that is no crash loop and does
        not count towards one.
        """
        while self._ends and now - self._ends[0] >= WINDOW_SECONDS:
            self._ends.popleft()
        if not was_useful:
            self._ends.append(now)
        if len(self._ends) > self._max_restarts:
            return None
        self.restarts += 1
        if was_useful or len(self._ends) == 1:
            return 0.0
        return float(min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (len(self._ends) - 2)))
