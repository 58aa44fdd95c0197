"""Comparisons added up, by pair of versions. Pure; its memory does not grow with the number of comparisons."""

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from schemas.shadow_records import ShadowRecord

MAX_PAIRS = 64
"""More pairs of versions than anybody shadows; whoever may write to the topic could name any number."""
_MAX_CODES = 32
_RATIO = 1.02
_LOG_RATIO = math.log(_RATIO)


class LatencySketch:
    """Percentiles within 1 % of the true values, from counts in buckets that grow by 2 % (DDSketch, VLDB 2019)."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    def add(self, milliseconds: float) -> None:
        """Count one value; what is not above zero counts as next to nothing."""
        if math.isfinite(milliseconds):
            self._counts[math.ceil(math.log(max(milliseconds, 1e-3)) / _LOG_RATIO)] += 1

    def percentile(self, percent: float) -> float | None:
        """Return the value that `percent` of all do not exceed; None when there is none."""
        left = math.ceil(self._counts.total() * percent / 100)
        for bucket in sorted(self._counts):
            left -= self._counts[bucket]
            if left <= 0:
                return 2 * math.exp(bucket * _LOG_RATIO) / (1 + _RATIO)
        return None


@dataclass(order=True, frozen=True)
class Worst:
    """A request whose answers differ: failures first, then another label or shape, then by distance."""

    rank: tuple[int, float, int]
    record: ShadowRecord = field(compare=False)


@dataclass
class PairTally:
    """What two versions have come to."""

    version: str
    shadow: str
    count: int = 0
    agreeing: int = 0
    equal: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    """By code."""
    label_changes: int = 0
    measured: int = 0
    """Comparisons in which numbers were compared."""
    sum_difference: float = 0.0
    max_difference: float | None = None
    active_ms: LatencySketch = field(default_factory=LatencySketch)
    shadow_ms: LatencySketch = field(default_factory=LatencySketch)
    worst: list[Worst] = field(default_factory=list)

    @property
    def agreement(self) -> float | None:
        """The share of answers that agree, 0 to 1, among those that the shadow gave; None without one."""
        answered = self.count - self.failed.total()
        return self.agreeing / answered if answered else None

    @property
    def mean_difference(self) -> float | None:
        """Mean over comparisons of the largest difference in each; None without numbers."""
        return self.sum_difference / self.measured if self.measured else None

    def list_worst(self) -> list[ShadowRecord]:
        """Return the most different requests, the worst first."""
        return [one.record for one in sorted(self.worst, reverse=True)]


class ShadowTally:
    """Add records; look at `pairs` at any time."""

    def __init__(self, model: str, shadow: str | None = None, tolerance: float = 0.0, worst: int = 5) -> None:
        """Only records of `model`, and of one shadow version if that is given.

        Answers agree when they are equal, or differ in numbers alone and by no more than `tolerance`.
        """
        self._model = model
        self._shadow = shadow
        self._tolerance = tolerance
        self._most_worst = worst
        self._serial = 0
        self.pairs: dict[tuple[str, str], PairTally] = {}

    def add(self, record: ShadowRecord) -> None:
        """Count a comparison."""
        if record.model != self._model or self._shadow not in (None, record.shadow):
            return
        key = (record.version, record.shadow)
        if key not in self.pairs and len(self.pairs) >= MAX_PAIRS:
            return
        pair = self.pairs.setdefault(key, PairTally(*key))
        pair.count += 1
        body = record.body
        pair.active_ms.add(body.timings.active_ms)
        if body.failure is not None:
            code = body.failure.code
            pair.failed[code if code in pair.failed or len(pair.failed) < _MAX_CODES else "other"] += 1
        else:
            self._add_answer(pair, record)
        self._keep(pair, record)

    def lines(self) -> Iterator[bytes]:
        """Write each pair as one JSON object."""
        for pair in self.pairs.values():
            yield msgspec.json.encode(_describe(self._model, pair))

    def _add_answer(self, pair: PairTally, record: ShadowRecord) -> None:
        body = record.body
        distance = body.max_difference
        pair.shadow_ms.add(body.timings.shadow_ms)
        pair.equal += body.equal
        is_close = body.only_numbers and distance is not None and distance <= self._tolerance
        pair.agreeing += body.equal or is_close
        pair.label_changes += body.label is not None
        if distance is not None and math.isfinite(distance):
            pair.measured += 1
            pair.sum_difference += distance
            pair.max_difference = max(pair.max_difference or 0.0, distance)

    def _keep(self, pair: PairTally, record: ShadowRecord) -> None:
        body = record.body
        if body.equal or not self._most_worst:
            return
        self._serial += 1
        kind = 3 if body.failure is not None else 2 if body.label is not None else 0 if body.only_numbers else 1
        worst = Worst((kind, body.max_difference or 0.0, -self._serial), record)
        if len(pair.worst) < self._most_worst:
            heapq.heappush(pair.worst, worst)
        else:
            heapq.heappushpop(pair.worst, worst)


def _describe(model: str, pair: PairTally) -> dict[str, Any]:
    return {
        "model": model,
        "version": pair.version,
        "shadow": pair.shadow,
        "count": pair.count,
        "failed": dict(pair.failed),
        "equal": pair.equal,
        "agreement": pair.agreement,
        "label_changes": pair.label_changes,
        "mean_difference": pair.mean_difference,
        "max_difference": pair.max_difference,
        "active_ms": _percentiles(pair.active_ms),
        "shadow_ms": _percentiles(pair.shadow_ms),
        "worst": [
            {"id": record.request_id, "source": record.body.source, **msgspec.to_builtins(_brief(record))}
            for record in pair.list_worst()
        ],
    }


def _brief(record: ShadowRecord) -> dict[str, Any]:
    body = record.body
    return {
        "max_difference": body.max_difference,
        "label": body.label,
        "changed": body.changed,
        "changes": body.changes,
        "failure": body.failure,
    }


def _percentiles(sketch: LatencySketch) -> dict[str, float | None]:
    return {f"p{percent}": sketch.percentile(percent) for percent in (50, 95)}
