"""How sure a difference is: one-sided bounds for rates, means and quantiles, written plainly.

All of them hold at 99 %: a bound is on the wrong side once in a hundred looks at versions that are equal.
"""

import math
from typing import NamedTuple

Z = 2.3263
"""The 99 % quantile of the standard normal distribution."""


class Interval(NamedTuple):
    """What a true value lies between, each side at 99 %."""

    low: float
    high: float


def bound_rate(count: int, trials: int) -> Interval:
    """Return Wilson's score interval of a rate (E. B. Wilson, J. Am. Stat. Assoc. 22, 1927); it holds for few trials.

    Raises ValueError without a trial.
    """
    if not 0 <= count <= trials or trials < 1:
        raise ValueError(f"{count} of {trials} is no rate")
    rate = count / trials
    centre = rate + Z * Z / (2 * trials)
    half = Z * math.sqrt(rate * (1 - rate) / trials + (Z / (2 * trials)) ** 2)
    scale = 1 + Z * Z / trials
    # Rounding may carry a bound past the rate it is a bound of.
    return Interval(max(0.0, min(rate, (centre - half) / scale)), min(1.0, max(rate, (centre + half) / scale)))


def bound_rate_increase(count: int, trials: int, base_count: int, base_trials: int) -> float:
    """Return what a rate exceeds another one by, at the least.

    R. G. Newcombe's hybrid score interval (method 10 in Stat. Med. 17, 1998), which stays right at rates near zero.
    """
    rate, base = count / trials, base_count / base_trials
    below = rate - bound_rate(count, trials).low
    above = bound_rate(base_count, base_trials).high - base
    return rate - base - math.hypot(below, above)


def bound_mean_drop(drop: float, variance_of_means: float) -> float:
    """Return what a mean lies below another one by, at the least, from the summed variances of both means.

    Welch's statistic (Biometrika 34, 1947) with the normal quantile: for dozens of values a side and more.
    """
    return drop - Z * math.sqrt(max(0.0, variance_of_means))


def bound_quantile_ranks(quantile: float, samples: float) -> Interval | None:
    """Return the ranks, as shares of all samples, of the values that a quantile lies between.

    The normal approximation of the binomial one for order statistics (H. A. David, Order Statistics, 7.1). `samples`
    may be a fraction, for values that are not independent. None: there are too few for an upper bound.
    """
    if samples <= 0:
        return None
    half = Z * math.sqrt(quantile * (1 - quantile) / samples)
    return None if quantile + half >= 1 else Interval(max(0.0, quantile - half), quantile + half)
