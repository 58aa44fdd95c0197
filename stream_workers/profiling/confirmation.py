"""The second measurement: real model processes and the real batcher under the chosen settings, against the forecast."""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stream_workers.batching.batcher import Batcher
from stream_workers.batching.lane import BatchLimits
from stream_workers.batching.waiting import WaitPolicy
from stream_workers.profiling.arrivals import poisson_arrivals
from stream_workers.profiling.forecast import SEED, latencies
from stream_workers.profiling.model_bench import ModelBench
from stream_workers.profiling.samples import Sample, SampleStream
from stream_workers.profiling.service_curve import ServiceCurve
from stream_workers.profiling.setups import Candidate
from stream_workers.profiling.worker_simulation import Run, simulate

TOLERANCE = 0.15
_LONGEST_WAIT_SECONDS = 0.02
_FORECASTS = 5


@dataclass(frozen=True, slots=True)
class Comparison:
    """One figure, as forecast and as measured, in the unit that its name says."""

    name: str
    forecast: float
    measured: float

    @property
    def error(self) -> float:
        """How far the forecast is from what was measured, as a share of that."""
        return self.forecast / self.measured - 1

    @property
    def holds(self) -> bool:
        """True within the tolerance."""
        return abs(self.error) <= TOLERANCE


@dataclass(frozen=True, slots=True)
class ConfirmationPlan:
    """How the second measurement loads the models."""

    rate: float
    seconds: float
    max_batch_bytes: int
    seed: int = SEED + 7


def confirm(
    bench: ModelBench, samples: Sequence[Sample], candidate: Candidate, curve: ServiceCurve, plan: ConfirmationPlan
) -> list[Comparison]:
    """Run an open loop at the rate, then a backlog, and compare. Latencies are to the answer: there is no Kafka here.

    The forecast is given the very arrivals that are measured, so that only the worker is judged and not the luck of the
    draw; its own draws are repeated, and the median of the repetitions counts.
    """
    open_loop = poisson_arrivals(plan.rate, max(200, int(plan.rate * plan.seconds)), plan.seed)
    capacity = curve.capacity(candidate.max_batch_size, candidate.setup.instances)
    backlog = [0.0] * max(20 * candidate.max_batch_size, int(capacity * plan.seconds / 2))
    measured = _drive(bench, samples, candidate, open_loop, plan.max_batch_bytes)
    saturated = _drive(bench, samples, candidate, backlog, plan.max_batch_bytes)
    forecasts = [_forecast(candidate, curve, open_loop, plan.seed + number) for number in range(_FORECASTS)]
    found = latencies(measured, measured.answered_at)
    expected = [latencies(run, run.answered_at) for run in forecasts]
    return [
        Comparison("p50, ms", _median_ms([one.p50 for one in expected]), found.p50 * 1000),
        Comparison("p99, ms", _median_ms([one.p99 for one in expected]), found.p99 * 1000),
        Comparison(
            "largest throughput, records/s",
            _forecast(candidate, curve, backlog, plan.seed).records_per_second,
            saturated.records_per_second,
        ),
    ]


def _median_ms(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) * 1000


def _forecast(candidate: Candidate, curve: ServiceCurve, arrivals: Sequence[float], seed: int) -> Run:
    return simulate(arrivals, candidate.shape(), curve.draws(seed), candidate.new_wait())


def _drive(
    bench: ModelBench, samples: Sequence[Sample], candidate: Candidate, arrivals: Sequence[float], max_bytes: int
) -> Run:
    return _Driver(bench, samples, candidate, max_bytes).run(arrivals)


class _Driver:
    """The worker's loop without Kafka: records come by the clock, whether or not the models keep up."""

    def __init__(self, bench: ModelBench, samples: Sequence[Sample], candidate: Candidate, max_bytes: int) -> None:
        self._bench = bench
        self._stream = SampleStream(samples)
        self._wait: WaitPolicy = candidate.new_wait()
        self._batcher = Batcher(BatchLimits(candidate.max_batch_size, max_bytes), self._wait)
        self._answered_at: list[float] = []
        self._batch_sizes: list[int] = []
        self._began_at = 0.0

    def run(self, arrivals: Sequence[float]) -> Run:
        self._answered_at = [0.0] * len(arrivals)
        self._began_at = time.monotonic()
        coming = iter(arrivals)
        next_at: float | None = next(coming)
        answered = 0
        while answered < len(arrivals):
            next_at = self._admit(coming, next_at)
            self._submit()
            answered += self._collect(next_at)
        return Run(arrivals, self._answered_at, self._batch_sizes)

    def _now(self) -> float:
        return time.monotonic() - self._began_at

    def _admit(self, coming: Iterator[float], next_at: float | None) -> float | None:
        count, now = 0, self._now()
        while next_at is not None and next_at <= now:
            # Counted from when it was to come: a late loop must not make the latency look better.
            self._batcher.add(self._stream.take(1, next_at))
            count += 1
            next_at = next(coming, None)
        if count:
            self._wait.note_arrivals(count, now)
        return next_at

    def _submit(self) -> None:
        while self._bench.count_free_slots() and len(self._batcher):
            self._wait.note_in_hand(self._bench.batches_in_hand)
            due = self._batcher.next_batch(self._now())
            if due is None:
                return
            self._batch_sizes.append(len(due[0]))
            self._bench.submit(due[0], time.monotonic())

    def _collect(self, next_at: float | None) -> int:
        now = self._now()
        until = [now + _LONGEST_WAIT_SECONDS]
        if next_at is not None:
            until.append(next_at)
        release_at = self._batcher.next_release_at() if self._bench.count_free_slots() else None
        if release_at is not None:
            until.append(release_at)
        count = 0
        for _, answer in self._bench.collect(max(0.0, min(until) - now)):
            ended = self._now()
            self._wait.note_service(len(answer.batch.items), answer.model_ms / 1000)
            for item in answer.batch.items:
                self._answered_at[item.request.offset] = ended
            count += len(answer.batch.items)
        return count
