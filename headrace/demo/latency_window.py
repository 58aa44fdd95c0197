"""Latencies of the last seconds and their percentiles."""

import math
from collections import deque
from collections.abc import Sequence


class LatencyWindow:
    """Remembers what was added during the last `seconds`; the clock is passed in and never runs backwards."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._entries: deque[tuple[float, float]] = deque()
        self._began: float | None = None

    def add(self, now: float, latency_seconds: float) -> None:
        """Remember one answered request."""
        if self._began is None:
            self._began = now
        self._entries.append((now, latency_seconds))
        self._forget(now)

    def percentiles(self, now: float, wanted: Sequence[float]) -> list[float | None]:
        """Return the wanted percentiles (0 to 100) of the window, None for each while it is empty."""
        self._forget(now)
        values = sorted(latency for _, latency in self._entries)
        return [nearest_rank(values, percent) for percent in wanted]

    def rate(self, now: float) -> float:
        """Return answers per second, over the part of the window that has passed since the first answer."""
        self._forget(now)
        if self._began is None or not self._entries:
            return 0.0
        return len(self._entries) / min(self._seconds, max(1.0, now - self._began))

    def _forget(self, now: float) -> None:
        while self._entries and self._entries[0][0] <= now - self._seconds:
            self._entries.popleft()


def nearest_rank(values: Sequence[float], percent: float) -> float | None:
    """Return the smallest of the sorted `values` that `percent` of them do not exceed; None without values."""
    if not values:
        return None
    return values[max(0, math.ceil(percent / 100 * len(values)) - 1)]
