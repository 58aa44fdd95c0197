"""The kill of the demo: which process, when, and how long results stayed away."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.demo.pauses import Pause, find_longest_pause

SETTLING_SECONDS = 20.0
"""Pauses that begin later than this after the kill are not put down to it."""


@dataclass(frozen=True)
class Kill:
    """A member was killed at `at` (a reading of the clock that stamps results)."""

    pid: int
    at: float

    def pause(self, arrivals: Mapping[int, Sequence[float]]) -> Pause | None:
        """Return the longest wait for a result of one partition around the kill; None before there is any."""
        return find_longest_pause(arrivals, after=self.at, before=self.at + SETTLING_SECONDS)

    def usual_pause(self, arrivals: Mapping[int, Sequence[float]]) -> Pause | None:
        """Return the longest wait before the kill, to compare with."""
        earlier = {partition: [at for at in times if at < self.at] for partition, times in arrivals.items()}
        return find_longest_pause(earlier, after=0.0)

    def describe(self, arrivals: Mapping[int, Sequence[float]], member_pids: Sequence[int], now: float) -> str:
        """Say in a line what was killed and what has been measured so far."""
        pause = self.pause(arrivals)
        state = f"members now {' '.join(map(str, member_pids)) or 'none'}"
        measured = f"longest pause so far {pause.seconds:.2f} s" if pause else "no result since"
        return f"member {self.pid} killed {now - self.at:.0f} s ago; {state}; {measured}"
