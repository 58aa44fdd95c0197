"""Chooses settings: the largest throughput within a p99 target, and at the asked rate the lowest p99 of those. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from schemas.errors import ConfigurationError
from stream_workers.profiling.forecast import Forecast, Load, find_largest_rate, forecast
from stream_workers.profiling.service_curve import ServiceCurve
from stream_workers.profiling.setups import WAITS_MS, Candidate, Setup

Curves = Mapping[Setup, ServiceCurve]

_AS_GOOD = 0.97
"""Candidates that carry this share of the largest rate count as equal, since simulations are not more exact."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What the settings must reach."""

    rate: float
    """Records per second that arrive."""
    p99_seconds: float
    """From arrival to visible result."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The best candidate and what is expected of it."""

    candidate: Candidate
    largest_rate: float
    """At which its p99 is within the target."""
    at_rate: Forecast
    """At the asked rate, or at the largest one when that is less."""

    def carries(self, goal: Goal) -> bool:
        """True when the asked rate is within reach."""
        return self.largest_rate >= goal.rate and self.at_rate.visible.p99 <= goal.p99_seconds


def list_candidates(curves: Curves) -> list[Candidate]:
    """Every measured size as the largest batch, with every wait; the largest capacity first."""
    candidates = [
        Candidate(setup, one.batch_size, wait)
        for setup, curve in curves.items()
        for one in curve.measured
        for wait in (WAITS_MS if one.batch_size > 1 else (0.0,))
    ]
    candidates.sort(key=lambda one: -_capacity(one, curves))
    return candidates


def choose(curves: Curves, goal: Goal, load: Load, tell: Callable[[str], None]) -> Choice:
    """Return the candidate with the largest rate within the target, and of those as good the lowest p99 at `goal.rate`.

    Only candidates that keep the target at `goal.rate` count, unless there is none. Raises ConfigurationError when the
    target is out of reach at any rate, naming the floor of the latency.
    """
    search = _Search(curves, goal, load, tell)
    candidates = [one for one in list_candidates(curves) if search.floor_seconds(one) <= goal.p99_seconds]
    at_goal = {one: forecast(one, curves[one.setup], goal.rate, load) for one in candidates if search.can_carry(one)}
    able = [one for one, expected in at_goal.items() if expected.visible.p99 <= goal.p99_seconds]
    if able:
        largest = max(goal.rate, search.find_largest(able)[1])
        as_good = [one for one in able if search.keeps(one, largest * _AS_GOOD)]
        best = min(as_good or able, key=lambda one: at_goal[one].visible.p99)
        own = find_largest_rate(best, curves[best.setup], goal.p99_seconds, load)
        return Choice(best, max(goal.rate, own), at_goal[best])
    found, largest = search.find_largest(candidates)
    if found is None:
        floor = min(curve.seconds(1) for curve in curves.values()) + load.commit_interval_seconds
        raise ConfigurationError(
            f"--p99-ms {goal.p99_seconds * 1000:g}: out of reach at any rate; a lone record takes up to"
            f" {floor * 1000:.0f} ms, {load.commit_interval_seconds * 1000:.0f} of them worker.commit_interval_ms"
        )
    return Choice(found, largest, forecast(found, curves[found.setup], largest, load))


class _Search:
    """What candidates can do within one target."""

    def __init__(self, curves: Curves, goal: Goal, load: Load, tell: Callable[[str], None]) -> None:
        self._curves = curves
        self._goal = goal
        self._load = load
        self._tell = tell

    def floor_seconds(self, candidate: Candidate) -> float:
        """A bound below its p99 at any rate: a batch of one, and nearly the whole commit interval."""
        return self._curves[candidate.setup].seconds(1) + 0.9 * self._load.commit_interval_seconds

    def can_carry(self, candidate: Candidate) -> bool:
        """True when its capacity is above the asked rate."""
        return _capacity(candidate, self._curves) > self._goal.rate

    def keeps(self, candidate: Candidate, rate: float) -> bool:
        """True when it keeps the target at this rate."""
        if _capacity(candidate, self._curves) < rate:
            return False
        expected = forecast(candidate, self._curves[candidate.setup], rate, self._load)
        return expected.visible.p99 <= self._goal.p99_seconds

    def find_largest(self, candidates: Sequence[Candidate]) -> tuple[Candidate | None, float]:
        """Return the candidate that carries most, and how much. `candidates` come with the largest capacity first.

        One simulation, at the best rate so far, rules out nearly all of them.
        """
        best: Candidate | None = None
        largest = 0.0
        for number, candidate in enumerate(candidates, 1):
            if _capacity(candidate, self._curves) <= largest:
                break
            if largest and not self.keeps(candidate, largest):
                continue
            curve = self._curves[candidate.setup]
            rate = find_largest_rate(candidate, curve, self._goal.p99_seconds, self._load)
            if rate > largest:
                best, largest = candidate, rate
                self._tell(f"candidate {number} of {len(candidates)}: {largest:,.0f} records/s within the target")
        return best, largest


def _capacity(candidate: Candidate, curves: Curves) -> float:
    return curves[candidate.setup].capacity(candidate.max_batch_size, candidate.setup.instances)
