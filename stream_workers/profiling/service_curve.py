"""Service time by batch size: what was measured, the straight line through it, and what it says of capacity. Pure."""

import bisect
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.errors import ConfigurationError
from stream_workers.profiling.arrivals import percentile
from stream_workers.profiling.worker_simulation import ServiceTimes


@dataclass(frozen=True, slots=True)
class SizeTimes:
    """The service times that were measured for one batch size, in seconds."""

    batch_size: int
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Half of the batches took no longer."""
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """From the 10th to the 90th percentile, as a share of the median."""
        return (percentile(self.seconds, 0.9) - percentile(self.seconds, 0.1)) / self.median


@dataclass(frozen=True, slots=True)
class ServiceCurve:
    """Made by :func:`fit_curve`. `fixed_seconds + per_record_seconds * size` is the line through the medians."""

    measured: tuple[SizeTimes, ...]
    """By rising batch size."""
    fixed_seconds: float
    per_record_seconds: float

    @property
    def largest_size(self) -> int:
        """The largest size that was measured."""
        return self.measured[-1].batch_size

    def line_seconds(self, batch_size: int) -> float:
        """What the line says for a batch of this size."""
        return self.fixed_seconds + self.per_record_seconds * batch_size

    def seconds(self, batch_size: int) -> float:
        """The median where it was measured, between two sizes on the straight line from one to the other.

        Predictions use this and not the fitted line, whose error is largest where models leave it: at size 1 and where
        a batch outgrows a cache.
        """
        below = self.measured[0]
        for above in self.measured:
            if above.batch_size >= batch_size:
                if above is below or above.batch_size == batch_size:
                    return above.median
                share = (batch_size - below.batch_size) / (above.batch_size - below.batch_size)
                return below.median + share * (above.median - below.median)
            below = above
        return below.median + self.per_record_seconds * (batch_size - below.batch_size)

    def capacity(self, batch_size: int, instances: int) -> float:
        """Records per second of `instances` that always run batches of this size."""
        return instances * batch_size / self.seconds(batch_size)

    @property
    def worst_misfit(self) -> float:
        """The largest distance of a median from the line, as a share of the median."""
        return max(abs(self.line_seconds(one.batch_size) / one.median - 1) for one in self.measured)

    def draws(self, seed: int) -> ServiceTimes:
        """Return service times that vary as the measured ones did at the nearest size above."""
        draw = random.Random(seed)  # noqa: S311 - a repeatable simulation, not a secret
        sizes = [one.batch_size for one in self.measured]
        ratios = [[value / one.median for value in one.seconds] for one in self.measured]
        last = len(sizes) - 1
        medians: dict[int, float] = {}

        def seconds(batch_size: int) -> float:
            if batch_size not in medians:
                medians[batch_size] = self.seconds(batch_size)
            return medians[batch_size] * draw.choice(ratios[min(last, bisect.bisect_left(sizes, batch_size))])

        return seconds


def fit_curve(measured: Sequence[SizeTimes]) -> ServiceCurve:
    """Fit `a + c * size`, both zero or more, to the medians by size. Raises ConfigurationError without a measurement.

    Least squares of the relative errors, so that the small sizes count as much as the large ones. The constraint is
    kept as in non-negative least squares (Lawson and Hanson, "Solving Least Squares Problems", 1974, ch. 23), which for
    two coefficients means: when one is negative, set it to zero and solve for the other. Medians, not means: a batch
    that the system held up says nothing of the model.
    """
    ordered = tuple(sorted(measured, key=lambda one: one.batch_size))
    if not ordered:
        raise ConfigurationError("no batch size was measured: nothing to fit")
    ones = [1 / one.median for one in ordered]
    sizes = [one.batch_size / one.median for one in ordered]
    oo, os, ss = _dot(ones, ones), _dot(ones, sizes), _dot(sizes, sizes)
    o, s = sum(ones), sum(sizes)
    determinant = oo * ss - os * os
    if determinant > 1e-12 * oo * ss:
        fixed, per_record = (o * ss - s * os) / determinant, (s * oo - o * os) / determinant
    else:
        fixed, per_record = 0.0, s / ss
    if fixed < 0:
        fixed, per_record = 0.0, s / ss
    elif per_record < 0:
        fixed, per_record = o / oo, 0.0
    return ServiceCurve(ordered, fixed, per_record)


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(one * other for one, other in zip(left, right, strict=True))
