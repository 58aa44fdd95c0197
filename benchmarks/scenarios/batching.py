"""Dynamic batches against single records and fixed batches: how much of the cores is used, and what it costs in p99."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.contestants.catalogue import CONTESTANTS, Contestant
from benchmarks.contestants.headrace_settings import OVERLAYS, merge, read_overlay
from benchmarks.figures import choose_backlog, corrected_latencies, percentile, ratio, summarise
from benchmarks.report.section import Chart, Section
from benchmarks.runner.arena import START_SECONDS, Variant
from benchmarks.runner.open_loop import open_loop
from benchmarks.scenarios.scenario import Context
from benchmarks.schedules import Phase, order_of_round, schedule_arrivals
from benchmarks.workloads.specification import FRAMES, Workload

COLUMNS = ("workload", "batches", "records/s", "utilisation", "p50 ms", "p99 ms", "p99 - batch 1, ms", "x batch 1")
_SECONDS, _CHECK_SECONDS = 4.0, 1.5
_LIMIT_SECONDS = 2.0
_LOAD = 0.5
"""Of what single records reach, so that every way can hold it."""
_SETTLE_SECONDS = 0.5
_DRAIN_SECONDS = 5.0
_FIXED_WAIT_MS = 1000
"""A fixed batch waits until it is full; the wait is bounded, or the last requests would never be answered."""


@dataclass(frozen=True)
class Way:
    """One way to form batches."""

    name: str
    size: int
    wait_ms: float

    @property
    def settings(self) -> dict[str, Any]:
        """What it takes in Headrace."""
        return {"batching": {"max_batch_size": self.size, "max_wait_ms": self.wait_ms}}


def ways_of(workload: Workload) -> list[Way]:
    """Single records, fixed batches, and dynamic ones up to the same size."""
    largest = workload.batch_size
    return [
        Way("batch 1", 1, 0.0),
        Way(f"fixed {largest}", largest, _FIXED_WAIT_MS),
        Way(f"dynamic, at most {largest}", largest, 10.0),
    ]


@dataclass(frozen=True)
class Outcome:
    """One way, one round."""

    per_second: float
    latencies: list[float]


class Batching:
    """The batching scenario."""

    name = "batching"

    def __init__(self, workloads: Sequence[Workload] = (FRAMES,)) -> None:
        self._workloads = workloads

    def run(self, context: Context) -> Section:
        """See :class:`benchmarks.scenarios.scenario.Scenario`."""
        section = Section(self.name, "dynamic batches, single records and fixed batches, exactly once", COLUMNS)
        for workload in self._workloads:
            limit = context.arena.measure_limit(workload, CONTESTANTS["model-alone"], _LIMIT_SECONDS).per_second
            outcomes = self._play(context, workload)
            section.rows += [
                _describe(workload, name, found, outcomes["batch 1"], limit) for name, found in outcomes.items()
            ]
            series = {
                name: [(0.0, summarise([one.per_second for one in found]).median)] for name, found in outcomes.items()
            }
            title = f"batching: {workload.title}"
            section.charts.append(Chart("bars", title, "records per second", "", series, reference=limit))
        section.notes += [
            "Utilisation: records per second from a full backlog, of what the model alone does at its full batch size.",
            f"Latency: open loop at {_LOAD:.0%} of what single records reach, from due to readable.",
        ]
        return section

    def _play(self, context: Context, workload: Workload) -> dict[str, list[Outcome]]:
        contestant, ways = CONTESTANTS["headrace"], {way.name: way for way in ways_of(workload)}
        backlogs: dict[str, int] = {}
        for way in ways.values():
            context.say(f"batching: trial, {workload.name}, {way.name}")
            rate = context.arena.measure(workload, contestant, workload.ladder[0], Variant(way.settings)).per_second
            wanted = 0.0 if context.options.is_check else context.options.seconds
            backlogs[way.name] = choose_backlog(rate, wanted, workload.ladder)
            if way.size == 1:
                arrivals = _LOAD * rate
        found: dict[str, list[Outcome]] = {name: [] for name in ways}
        rounds = 1 if context.options.is_check else context.options.rounds
        for number in range(rounds):
            for name in order_of_round(list(ways), number):
                context.say(f"batching: round {number + 1} of {rounds}, {workload.name}, {name}")
                variant = Variant(ways[name].settings)
                run = context.arena.measure(workload, contestant, backlogs[name], variant)
                latencies = _observe(context, workload, contestant, ways[name], arrivals)
                found[name].append(Outcome(run.per_second, latencies))
        return found


def _observe(context: Context, workload: Workload, contestant: Contestant, way: Way, per_second: float) -> list[float]:
    arena, seconds = context.arena, _CHECK_SECONDS if context.options.is_check else _SECONDS
    payloads = arena.prepare(workload).payloads
    settings = merge(read_overlay(OVERLAYS / "latency.yaml"), way.settings)
    with (
        arena.serving(workload, contestant, settings=settings) as serving,
        open_loop(arena.bootstrap, serving.results, payloads, workload.content_type, serving.check) as loop,
    ):
        loop.warm_up(serving.requests, START_SECONDS)
        due_at = loop.send(serving.requests, schedule_arrivals([Phase(per_second, seconds)]), "batching-")
        loop.wait(due_at, _DRAIN_SECONDS)
        readable = dict(loop.readable.at)
    began, ended = min(due_at.values()), max(due_at.values())
    # The end is left out as well: there the last fixed batch waits for requests that do not come.
    middle = {one: at for one, at in due_at.items() if began + _SETTLE_SECONDS <= at <= ended - _SETTLE_SECONDS}
    return list(corrected_latencies(middle, readable, ended + _DRAIN_SECONDS).values())


def _describe(
    workload: Workload, name: str, found: Sequence[Outcome], single: Sequence[Outcome], limit: float
) -> dict[str, Any]:
    rate, alone = (summarise([one.per_second for one in outcomes]).median for outcomes in (found, single))
    p99, p99_alone = (
        summarise([percentile(one.latencies, 0.99) * 1000 for one in outcomes]).median for outcomes in (found, single)
    )
    return {
        "workload": workload.name,
        "batches": name,
        "records/s": rate,
        "utilisation": ratio(rate, limit),
        "p50 ms": summarise([percentile(one.latencies, 0.5) * 1000 for one in found]).median,
        "p99 ms": p99,
        "p99 - batch 1, ms": p99 - p99_alone,
        "x batch 1": ratio(rate, alone),
    }
