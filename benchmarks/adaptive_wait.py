"""The adaptive wait against every fixed wait, in virtual time: `python -m benchmarks.adaptive_wait [--records N]`.

At each rate the rival is the fixed wait that turns out best there, in hindsight; nobody who has to choose one wait for
all rates gets that. Prints a Markdown table of ratios: below 1 the adaptive wait is better. Nothing in it depends on
the machine.
"""

import argparse
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import Pool

from stream_workers.batching.adaptive_wait import AdaptiveWait
from stream_workers.batching.waiting import WaitPolicy
from stream_workers.profiling.arrivals import percentile, poisson_arrivals
from stream_workers.profiling.worker_simulation import ServiceTimes, WorkerShape, simulate

FIXED_WAITS_MS = (0, 1, 2, 5, 10, 20, 50, 100)
SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
"""Of the capacity at full batches."""


@dataclass(frozen=True)
class Case:
    """A model's cost in milliseconds, and the worker around it."""

    fixed_ms: float
    per_record_ms: float
    instances: int
    slots: int
    max_batch_size: int

    @property
    def capacity(self) -> float:
        """Records per second at full batches."""
        size = self.max_batch_size
        return self.instances * size / (self.fixed_ms + self.per_record_ms * size) * 1000

    def service(self, seed: int) -> ServiceTimes:
        """Draw service times, up to some 10 % above the line."""
        draw = random.Random(seed)  # noqa: S311 - a repeatable simulation, not a secret
        return lambda size: (self.fixed_ms + self.per_record_ms * size) / 1000 * (1 + 0.05 * abs(draw.gauss(0, 1)))


CASES = (
    Case(50, 1, 1, 2, 32),
    Case(50, 1, 2, 2, 32),
    Case(30, 3, 1, 2, 16),
    Case(20, 2, 4, 2, 32),
    Case(10, 0.1, 2, 2, 64),
    Case(10, 1, 1, 1, 32),
    Case(5, 5, 1, 2, 16),
    Case(5, 5, 2, 2, 16),
    Case(5, 5, 2, 1, 16),
    Case(2, 1, 2, 2, 64),
    Case(1, 20, 2, 2, 16),
)


@dataclass(frozen=True)
class Score:
    """Latencies in seconds over all seeds of one policy at one rate."""

    p50: float
    p99: float
    throughput: float


@dataclass(frozen=True)
class Race:
    """One case at one rate."""

    case: Case
    share: float
    best_wait_ms: float
    best: Score
    adaptive: Score

    @property
    def p99_ratio(self) -> float:
        """Adaptive over the best fixed wait."""
        return self.adaptive.p99 / self.best.p99

    @property
    def throughput_ratio(self) -> float:
        """Adaptive over the best fixed wait."""
        return self.adaptive.throughput / self.best.throughput


def race(case: Case, share: float, records: int, seeds: Sequence[int]) -> Race:
    """Run every fixed wait and the adaptive one over the same arrivals."""
    fixed = {wait: score(case, share, records, seeds, wait, lambda: None) for wait in FIXED_WAITS_MS}
    best = min(fixed, key=lambda wait: fixed[wait].p99)
    adaptive = score(case, share, records, seeds, 0, lambda: AdaptiveWait(case.instances, case.max_batch_size))
    return Race(case, share, best, fixed[best], adaptive)


def score(
    case: Case,
    share: float,
    records: int,
    seeds: Sequence[int],
    wait_ms: float,
    policy: Callable[[], WaitPolicy | None],
) -> Score:
    """Run one policy over every seed and pool the latencies, without the first tenth of each run."""
    shape = WorkerShape(case.instances, case.slots, case.max_batch_size, wait_ms / 1000)
    waited: list[float] = []
    throughputs = []
    for seed in seeds:
        arrivals = poisson_arrivals(share * case.capacity, records, seed)
        run = simulate(arrivals, shape, case.service(seed + 1), policy())
        first = records // 10
        pairs = zip(run.arrived_at[first:], run.answered_at[first:], strict=True)
        waited += [answered - arrived for arrived, answered in pairs]
        throughputs.append(run.records_per_second)
    return Score(percentile(waited, 0.5), percentile(waited, 0.99), sum(throughputs) / len(throughputs))


def _run(job: tuple[Case, float, int]) -> Race:
    case, share, records = job
    return race(case, share, records, (1, 2, 3))


def main() -> None:
    """Run all cases at all rates."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=10_000)
    records = parser.parse_args().records
    jobs = [(case, share, records) for case in CASES for share in SHARES]
    with Pool() as pool:
        races = pool.map(_run, jobs, chunksize=1)
    print("| a + c x batch, ms | instances | slots | largest batch | " + " | ".join(f"{s:.0%}" for s in SHARES) + " |")
    print("| --- | --- | --- | --- |" + " --- |" * len(SHARES))
    for case in CASES:
        own = [one for one in races if one.case is case or one.case == case]
        cells = [f"{one.p99_ratio:.2f} ({one.best_wait_ms:g})" for one in own]
        head = f"{case.fixed_ms:g} + {case.per_record_ms:g} | {case.instances} | {case.slots} | {case.max_batch_size}"
        print(f"| {head} | " + " | ".join(cells) + " |")
    within = sum(one.p99_ratio <= 1.05 for one in races)
    print(f"\np99: {within} of {len(races)} within 5 %, worst {max(one.p99_ratio for one in races):.2f};")
    print(f"throughput: worst {min(one.throughput_ratio for one in races):.3f}")


if __name__ == "__main__":
    main()
