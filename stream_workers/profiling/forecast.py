"""What latency a candidate would have at a rate, and the largest rate that it carries within a target. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from stream_workers.profiling.arrivals import percentile, poisson_arrivals
from stream_workers.profiling.service_curve import ServiceCurve
from stream_workers.profiling.setups import Candidate
from stream_workers.profiling.worker_simulation import Run, simulate, visible_at

SEED = 20_2612
_WARM_UP_SHARE = 0.1
"""Of the records of a run: they met an empty worker."""
_FRACTIONS = (0.97, 0.94, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02)
_REFINEMENTS = 3


@dataclass(frozen=True, slots=True)
class Latencies:
    """Percentiles over the records of one run, in seconds."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """A candidate at a rate."""

    rate: float
    answered: Latencies
    """From the arrival to the model's answer."""
    visible: Latencies
    """From the arrival to the commit: what a read_committed reader sees."""
    mean_batch_size: float

    def describe(self) -> str:
        """Say it in a few words."""
        p50, p99 = self.visible.p50 * 1000, self.visible.p99 * 1000
        return f"p50 {p50:.0f} ms, p99 {p99:.0f} ms, mean batch {self.mean_batch_size:.1f}"


@dataclass(frozen=True, slots=True)
class Load:
    """What a forecast is made for, apart from the rate."""

    commit_interval_seconds: float
    records: int = 4000
    seed: int = SEED


def forecast(candidate: Candidate, curve: ServiceCurve, rate: float, load: Load) -> Forecast:
    """Simulate the candidate at a Poisson arrival rate."""
    arrivals = poisson_arrivals(rate, load.records, load.seed)
    run = simulate(arrivals, candidate.shape(), curve.draws(load.seed + 1), candidate.new_wait())
    visible = visible_at(run.answered_at, load.commit_interval_seconds)
    mean = statistics.fmean(run.batch_sizes)
    return Forecast(rate, latencies(run, run.answered_at), latencies(run, visible), mean)


def latencies(run: Run, ended_at: Sequence[float]) -> Latencies:
    """Return the percentiles without the records that met an empty worker."""
    first = int(len(run.arrived_at) * _WARM_UP_SHARE)
    waited = [ended - arrived for arrived, ended in zip(run.arrived_at[first:], ended_at[first:], strict=True)]
    return Latencies(percentile(waited, 0.5), percentile(waited, 0.99))


def find_largest_rate(candidate: Candidate, curve: ServiceCurve, p99_seconds: float, load: Load) -> float:
    """Return the largest rate at which the visible p99 is within the target, to about 1 %; 0 when there is none."""
    capacity = curve.capacity(candidate.max_batch_size, candidate.setup.instances)
    too_much = capacity
    for fraction in _FRACTIONS:
        if forecast(candidate, curve, fraction * capacity, load).visible.p99 <= p99_seconds:
            enough = fraction * capacity
            break
        too_much = fraction * capacity
    else:
        return 0.0
    for _ in range(_REFINEMENTS):
        middle = (enough + too_much) / 2
        if forecast(candidate, curve, middle, load).visible.p99 <= p99_seconds:
            enough = middle
        else:
            too_much = middle
    return enough


def trace(candidate: Candidate, curve: ServiceCurve, load: Load, points: int = 20) -> list[Forecast]:
    """Forecast from little load up to 97 % of capacity, by rising rate."""
    capacity = curve.capacity(candidate.max_batch_size, candidate.setup.instances)
    return [forecast(candidate, curve, capacity * 0.97 * (index + 1) / points, load) for index in range(points)]


def find_knee(points: Sequence[Forecast]) -> Forecast:
    """Return the point with the largest power, rate over p99 latency: beyond it latency grows faster than throughput.

    Kleinrock, "Power and deterministic rules of thumb for probabilistic problems in computer communications", 1979.
    """
    return max(points, key=lambda one: one.rate / one.visible.p99)
