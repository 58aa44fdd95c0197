"""What the adaptive wait knows of the load: how often records come and what a batch costs. Pure; forgets quickly."""

import math

RATE_MEMORY_SECONDS = 4.0
FIT_MEMORY_BATCHES = 128
_SILENCE_SECONDS = 0.1
"""Counted before the first arrival, so that the first burst is not taken for the rate."""
_LEAST_SPREAD = 0.05
"""Standard deviation of the batch sizes over their mean below which they say nothing about the slope."""
_STANDARD_ERRORS = 2.0


class ArrivalRate:
    """Records per second: arrivals and time itself are forgotten with `exp(-age / memory)`."""

    def __init__(self, memory_seconds: float = RATE_MEMORY_SECONDS) -> None:
        self._memory = memory_seconds
        self._count = 0.0
        self._began_at = self._at = float("inf")

    def note(self, count: int, now: float) -> None:
        """Take in arrivals."""
        if self._began_at > now:
            self._began_at = self._at = now - _SILENCE_SECONDS
        self._count = self._count * self._kept(now) + count
        self._at = max(self._at, now)

    def at(self, now: float) -> float:
        """Return the rate as seen at `now`; 0 before the first arrival."""
        if not self._count:
            return 0.0
        seen_seconds = self._memory * (1 - math.exp((self._began_at - max(self._at, now)) / self._memory))
        return self._count * self._kept(now) / seen_seconds

    def _kept(self, now: float) -> float:
        return math.exp(min(0.0, self._at - now) / self._memory)


class ServiceFit:
    """`fixed + per_record * batch_size`, both zero or more: least squares over exponentially weighted batches.

    The recursion is the usual one of weighted sums (Ljung and Söderström, "Theory and Practice of Recursive
    Identification", 1983, ch. 2). The fixed part is given as a lower bound, two standard errors below its estimate, and
    the rest counts as per record: a fixed cost that may be noise is nothing to wait for. So while all batches have
    about one size, which tells nothing of the slope, the coefficients last told are kept and only scaled.
    """

    def __init__(self, memory_batches: int = FIT_MEMORY_BATCHES) -> None:
        self._keep = 1 - 1 / memory_batches
        self._weight = self._size = self._time = 0.0
        self._size_size = self._size_time = self._time_time = 0.0
        self._told = (0.0, 1.0)
        """Fixed and per-record seconds, as last told apart; before that only their ratio means anything."""

    def note(self, batch_size: int, seconds: float) -> None:
        """Take in one batch."""
        keep = self._keep
        self._weight = keep * self._weight + 1
        self._size = keep * self._size + batch_size
        self._time = keep * self._time + seconds
        self._size_size = keep * self._size_size + batch_size * batch_size
        self._size_time = keep * self._size_time + batch_size * seconds
        self._time_time = keep * self._time_time + seconds * seconds

        self._tell_apart()

    def coefficients(self) -> tuple[float, float]:
        """Return the fixed and the per-record seconds; zeros before the first batch."""
        if not self._weight or self._time <= 0:
            return 0.0, 0.0
        fixed, per_record = self._told
        level = self._time / (fixed * self._weight + per_record * self._size)
        return fixed * level, per_record * level

    def _tell_apart(self) -> None:
        weight = self._weight
        size, time = self._size / weight, self._time / weight
        variance = self._size_size / weight - size * size
        if variance <= (_LEAST_SPREAD * size) ** 2 or time <= 0:
            return
        slope = (self._size_time / weight - size * time) / variance
        residual = max(0.0, self._time_time / weight - time * time - slope * slope * variance)
        error = math.sqrt(residual / weight * (1 + size * size / variance))
        fixed = min(max(0.0, time - slope * size - _STANDARD_ERRORS * error), time)
        self._told = (fixed, (time - fixed) / size)
