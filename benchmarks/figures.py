"""Arithmetic of the report: medians, spread, ratios, percentiles, latencies of an open loop. Pure."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """What the rounds of one contestant gave."""

    median: float
    low: float
    high: float
    rounds: tuple[float, ...]

    @property
    def relative(self) -> float:
        """Highest minus lowest as a share of the median; 0 for a median of 0."""
        return (self.high - self.low) / self.median if self.median else 0.0


def summarise(values: Sequence[float]) -> Spread:
    """Median, lowest and highest of the rounds. Raises ValueError when there is none."""
    if not values:
        raise ValueError("no round to summarise")
    return Spread(statistics.median(values), min(values), max(values), tuple(values))


def ratio(value: float, reference: float) -> float:
    """`value / reference`; NaN when there is nothing to compare with."""
    return value / reference if reference else math.nan


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the smallest value that at least `share` (0 to 1) of all values do not exceed.

    Never interpolates, so a p99.9 of a hundred values is their largest, not an invention. NaN without values.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share {share} is not between 0 and 1")
    if not values:
        return math.nan
    rank = max(1, math.ceil(share * len(values) - 1e-9))
    return sorted(values)[rank - 1]


def corrected_latencies(
    due_at: Mapping[str, float], readable_at: Mapping[str, float], closed_at: float
) -> dict[str, float]:
    """Seconds from when each request was due to be sent to when its result was readable.

    Counted from the schedule and not from the send, so a sender that was held up hides no wait (coordinated omission).
    A request without an answer counts with what it had waited when the reader closed: its true latency is longer.
    """
    return {request: readable_at.get(request, closed_at) - due for request, due in due_at.items()}


def count_goodput(
    due_at: Mapping[str, float], good_at: Mapping[str, float], deadline_seconds: float, bucket_seconds: float = 1.0
) -> list[float]:
    """Answers per second that were readable before their deadline, by the second in which they became readable.

    `good_at` holds the requests that were answered with a result of the model, not with an expiry.
    """
    end = max((*due_at.values(), *good_at.values()), default=0.0)
    buckets = [0] * (int(end / bucket_seconds) + 1)
    for request, at in good_at.items():
        if request in due_at and at <= due_at[request] + deadline_seconds:
            buckets[int(at / bucket_seconds)] += 1
    return [count / bucket_seconds for count in buckets]


def choose_backlog(rate: float, seconds: float, ladder: Sequence[int]) -> int:
    """The smallest backlog that keeps a contestant of this `rate` (records per second) busy for `seconds`.

    The largest one when none is large enough. `ladder` rises.
    """
    wanted = rate * seconds
    return next((rung for rung in ladder if rung >= wanted), ladder[-1])
