"""Service times by batch size, measured on model processes that are kept busy side by side."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stream_workers.pipeline.replica import Replica
from stream_workers.profiling.model_bench import ModelBench
from stream_workers.profiling.samples import Sample, SampleStream
from stream_workers.profiling.service_curve import ServiceCurve, SizeTimes, fit_curve

_COLLECT_SECONDS = 0.5
_LEAST_GAIN = 1.02
_WARM_UP_BATCHES = 2

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class MeasuringPlan:
    """How long and how far to measure."""

    sizes: Sequence[int]
    seconds_per_size: float
    slots: int
    """Batches that each instance has at a time, as `batching.slots`."""
    least_batches: int = 10
    """Per instance and size, however long they take."""
    longest_service_seconds: float = float("inf")
    """A size at which a batch takes longer is the last: no larger one can be of use."""


def measure_curve(bench: ModelBench, samples: Sequence[Sample], plan: MeasuringPlan, tell: Progress) -> ServiceCurve:
    """Measure the sizes, rising, until larger batches gain nothing: less than 2 % over two sizes in a row.

    All instances run batches of one size at the same time and always have their slots full, so what they cost each
    other is in the figures. `tell` is told every size.
    """
    stream = SampleStream(samples)
    measured: list[SizeTimes] = []
    best_rate, idle_sizes = 0.0, 0
    for size in plan.sizes:
        times = SizeTimes(size, tuple(_measure_size(bench, stream, size, plan)))
        measured.append(times)
        rate = len(bench.replicas) * size / times.median
        tell(f"batch {size}: {times.median * 1000:.2f} ms, {rate:,.0f} records/s")
        idle_sizes = 0 if rate > best_rate * _LEAST_GAIN else idle_sizes + 1
        best_rate = max(best_rate, rate)
        if idle_sizes == 2 or times.median > plan.longest_service_seconds:
            break
    return fit_curve(measured)


def _measure_size(bench: ModelBench, stream: SampleStream, size: int, plan: MeasuringPlan) -> list[float]:
    """Return service times: from the later of a batch's submission and the same replica's last answer to its answer."""
    replicas = bench.replicas
    for replica in replicas:
        _fill(bench, stream, replica, size, plan.slots)
    submitted_at = {replica.instance: time.monotonic() for replica in replicas}
    free_at: dict[int, float] = {}
    answers: defaultdict[int, int] = defaultdict(int)
    times: list[float] = []
    stop_at = time.monotonic() + plan.seconds_per_size
    needed = _WARM_UP_BATCHES + plan.least_batches
    while time.monotonic() < stop_at or min(answers[replica.instance] for replica in replicas) < needed:
        arrived: defaultdict[int, list[Replica]] = defaultdict(list)
        for replica, _ in bench.collect(_COLLECT_SECONDS):
            arrived[replica.instance].append(replica)
        now = time.monotonic()
        for number, group in arrived.items():
            # Several answers of one replica in one read are quicker than this loop: each took its share of the time.
            began = max(free_at.get(number, 0.0), submitted_at[number])
            answers[number] += len(group)
            if answers[number] > _WARM_UP_BATCHES:
                times += [(now - began) / len(group)] * len(group)
            free_at[number] = now
            if group[0].batches_in_hand == 0:
                submitted_at[number] = time.monotonic()
            _fill(bench, stream, group[0], size, plan.slots)
    while bench.batches_in_hand:
        bench.collect(_COLLECT_SECONDS)
    return times


def _fill(bench: ModelBench, stream: SampleStream, replica: Replica, size: int, slots: int) -> None:
    while replica.batches_in_hand < slots:
        now = time.monotonic()
        bench.submit(stream.take(size, now), now, replica)
