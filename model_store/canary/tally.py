"""What one version's results come to: counts, latencies and a quality signal, in bounded memory."""

import enum
import math
from collections import Counter
from dataclasses import dataclass, field

from model_store.canary.intervals import Interval, bound_quantile_ranks

QUANTILE = 0.95
_GROWTH = 1.02
"""Each bucket's bound over the last one's: a quantile is read to within a hundredth."""
_LEAST_MS, _MOST_MS = 0.001, 1e9


class Kind(enum.Enum):
    """How a request ended."""

    OK = "ok"
    EXPIRED = "expired"
    DEAD_LETTERED = "dead-lettered"
    UNMEASURED = "without the quality field"
    """Answered, but the answer has no finite number where the quality is looked for."""


@dataclass(frozen=True)
class Observation:
    """One outcome of one version."""

    kind: Kind
    latency_ms: float | None = None
    """From the poll that fetched it to its answer; None when the model did not answer it."""
    batch_size: int = 1
    """Records that share the latency, at least 1."""
    quality: float | None = None


@dataclass(frozen=True)
class Percentile:
    """The 95th percentile of latencies, in ms."""

    estimate: float
    bounds: Interval | None
    """None: too few batches to say."""


class LatencyHistogram:
    """Latencies in logarithmic buckets."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self._count = 0
        self._batches = 0.0

    def add(self, latency_ms: float, batch_size: int) -> None:
        """Take one in. The records of a batch share its time, so each is only a part of an independent sample."""
        within = min(max(latency_ms, _LEAST_MS), _MOST_MS)
        self._buckets[math.ceil(math.log(within, _GROWTH))] += 1
        self._count += 1
        self._batches += 1 / batch_size

    def find_percentile(self) -> Percentile | None:
        """Return the 95th percentile, None before the first sample."""
        if not self._count:
            return None
        ranks = bound_quantile_ranks(QUANTILE, self._batches)
        bounds = None if ranks is None else Interval(self._find(ranks.low), self._find(ranks.high))
        return Percentile(self._find(QUANTILE), bounds)

    def _find(self, share: float) -> float:
        left = math.ceil(share * self._count)
        bucket = 0
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                break
        return float(_GROWTH**bucket)


@dataclass
class MeanSum:
    """A mean and its variance, one value at a time (B. P. Welford, Technometrics 4, 1962)."""

    count: int = 0
    mean: float = 0.0
    _squares: float = 0.0

    def add(self, value: float) -> None:
        """Take one in."""
        self.count += 1
        step = value - self.mean
        self.mean += step / self.count
        self._squares += step * (value - self.mean)

    @property
    def variance_of_mean(self) -> float:
        """How far the mean may be off, squared; infinite for fewer than two values."""
        return self._squares / (self.count - 1) / self.count if self.count > 1 else math.inf


@dataclass
class Tally:
    """The outcomes of one version in one stage."""

    kinds: Counter[Kind] = field(default_factory=Counter)
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)
    quality: MeanSum = field(default_factory=MeanSum)

    def add(self, seen: Observation) -> None:
        """Take one in."""
        self.kinds[seen.kind] += 1
        if seen.latency_ms is not None:
            self.latencies.add(seen.latency_ms, seen.batch_size)
        if seen.quality is not None:
            self.quality.add(seen.quality)

    @property
    def results(self) -> int:
        """How many outcomes there are."""
        return self.kinds.total()

    @property
    def errors(self) -> int:
        """How many of them are none that anybody wants."""
        return self.results - self.kinds[Kind.OK]
