"""When records come, for simulations and for the confirming run: a Poisson stream from a seed. Pure."""

import random
from collections.abc import Sequence


def poisson_arrivals(rate: float, count: int, seed: int) -> list[float]:
    """Return `count` rising times in seconds, from 0 on, with exponential gaps of mean `1 / rate`."""
    draw = random.Random(seed)  # noqa: S311 - a repeatable load, not a secret
    times: list[float] = []
    now = 0.0
    for _ in range(count):
        now += draw.expovariate(rate)
        times.append(now)
    return times


def percentile(values: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile: the least value that `share` of all do not exceed. `values` is not empty."""
    ordered = sorted(values)
    rank = -int(-share * len(ordered) // 1)  # rounded up
    return ordered[min(len(ordered), max(1, rank)) - 1]
