"""How long an answer takes: open loop at shares of a capacity that both Headrace and its best peer have."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.contestants.catalogue import CONTESTANTS, Contestant, Family
from benchmarks.contestants.headrace_settings import OVERLAYS, read_overlay
from benchmarks.figures import corrected_latencies, percentile, ratio, summarise
from benchmarks.report.section import Chart, Section
from benchmarks.runner.arena import START_SECONDS
from benchmarks.runner.open_loop import OpenLoop, open_loop
from benchmarks.scenarios.scenario import Context
from benchmarks.schedules import Phase, schedule_arrivals
from benchmarks.workloads.specification import FRAMES, Workload

LOADS = (0.3, 0.5, 0.7, 0.9)
COLUMNS = (
    "contestant",
    "load",
    "requests/s",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "p99 lowest",
    "p99 highest",
    "unanswered",
)
FIELD = ("headrace", "headrace-at-least-once", "overlapped", "mosec", "mosec-tuned", "bytewax-tuned")
_LOAD_SECONDS, _CHECK_SECONDS = 4.0, 1.5
_SETTLE_SECONDS = 0.5
"""Of each load, left out: until the pace is reached."""
_DRAIN_SECONDS = 5.0
_OVERLAY: Path = OVERLAYS / "latency.yaml"


@dataclass
class Measured:
    """One contestant at all loads, in one round: seconds by load."""

    latencies: dict[float, list[float]] = field(default_factory=dict)
    unanswered: dict[float, int] = field(default_factory=dict)


class Latency:
    """The latency scenario."""

    name = "latency"

    def __init__(self, workload: Workload = FRAMES) -> None:
        self._workload = workload

    def run(self, context: Context) -> Section:
        """See :class:`benchmarks.scenarios.scenario.Scenario`."""
        section = Section(self.name, f"open loop, Poisson arrivals: {self._workload.title}", COLUMNS)
        contestants = [one for one in context.pick(FIELD) if one.family is not Family.LIMIT]
        capacity = context.common_capacity(self._workload, contestants, section)
        found = context.rounds(contestants, section, lambda one: self._play(context, one, capacity))
        for name, rounds in found.items():
            for load in LOADS:
                section.rows.append(_describe(name, load, capacity, rounds))
        section.notes += [
            f"100 % are {capacity:,.0f} requests/s: the lower of what Headrace and the best peer of this field reach.",
            "Counted from when a request was due to be sent, so a held-up sender hides nothing.",
            f"What was not answered {_DRAIN_SECONDS:g} s after the last request counts with its wait until then.",
            "p50 and p99 are medians of the rounds, p99.9 is that of all rounds together.",
            *_judge(section.rows),
        ]
        section.charts += [_chart(section, self._workload, column) for column in ("p99 ms", "p50 ms", "p99.9 ms")]
        return section

    def _play(self, context: Context, contestant: Contestant, capacity: float) -> Measured:
        arena, workload, measured = context.arena, self._workload, Measured()
        seconds = _CHECK_SECONDS if context.options.is_check else _LOAD_SECONDS
        payloads = arena.prepare(workload).payloads
        with (
            arena.serving(workload, contestant, settings=read_overlay(_OVERLAY)) as serving,
            open_loop(arena.bootstrap, serving.results, payloads, workload.content_type, serving.check) as loop,
        ):
            loop.warm_up(serving.requests, START_SECONDS)
            for load in LOADS:
                due = schedule_arrivals([Phase(load * capacity, seconds)], seed=int(load * 100))
                measured.latencies[load], measured.unanswered[load] = _observe(loop, serving.requests, due, load)
        return measured


def _observe(loop: OpenLoop, topic: str, due: Sequence[float], load: float) -> tuple[list[float], int]:
    due_at = loop.send(topic, due, f"load{load}-")
    loop.wait(due_at, _DRAIN_SECONDS)
    began = min(due_at.values(), default=0.0)
    readable = dict(loop.readable.at)
    closed_at = max(due_at.values(), default=0.0) + _DRAIN_SECONDS
    settled = {request: at for request, at in due_at.items() if at >= began + _SETTLE_SECONDS}
    unanswered = sum(1 for request in settled if request not in readable)
    return list(corrected_latencies(settled, readable, closed_at).values()), unanswered


def _describe(name: str, load: float, capacity: float, rounds: Sequence[Measured]) -> dict[str, object]:
    every = [[seconds * 1000 for seconds in one.latencies[load]] for one in rounds]
    p99 = summarise([percentile(one, 0.99) for one in every])
    return {
        "contestant": name,
        "load": f"{load:.0%}",
        "requests/s": load * capacity,
        "p50 ms": summarise([percentile(one, 0.5) for one in every]).median,
        "p99 ms": p99.median,
        "p99.9 ms": percentile([value for one in every for value in one], 0.999),
        "p99 lowest": p99.low,
        "p99 highest": p99.high,
        "unanswered": sum(one.unanswered[load] for one in rounds),
    }


def _judge(rows: Sequence[Mapping[str, object]]) -> list[str]:
    notes = []
    for load in ("50%", "90%"):
        p99 = {str(row["contestant"]): float(str(row["p99 ms"])) for row in rows if row["load"] == load}
        peers = {name: value for name, value in p99.items() if _is_peer(name)}
        if "headrace" in p99 and peers:
            best = min(peers, key=peers.__getitem__)
            times = ratio(peers[best], p99["headrace"])
            notes.append(f"At {load}, the p99 of the best peer ({best}) is {times:.2f}x Headrace's.")
    return notes


def _is_peer(name: str) -> bool:
    return name in CONTESTANTS and CONTESTANTS[name].family is Family.PEER


def _chart(section: Section, workload: Workload, column: str) -> Chart:
    series: dict[str, list[tuple[float, float]]] = {}
    for row in section.rows:
        load = float(str(row["load"]).rstrip("%"))
        series.setdefault(str(row["contestant"]), []).append((load, float(row[column])))
    title = f"{column.removesuffix(' ms')} from due to readable: {workload.title}"
    return Chart("lines", title, "load, % of capacity", column, series, is_logarithmic=True)
