"""Priority lanes: what an urgent request waits for while the low lane is full, and what is left for the low lane."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.contestants.catalogue import CONTESTANTS, Contestant
from benchmarks.contestants.headrace_settings import OVERLAYS, merge, read_overlay
from benchmarks.figures import corrected_latencies, percentile, summarise
from benchmarks.report.section import Section
from benchmarks.runner.arena import START_SECONDS
from benchmarks.runner.open_loop import OpenLoop, open_loop
from benchmarks.runner.processes import ContestantFailedError
from benchmarks.scenarios.scenario import Context
from benchmarks.schedules import Phase, schedule_arrivals
from benchmarks.workloads.specification import FRAMES, Workload

COLUMNS = ("contestant", "lanes", "urgent p50 ms", "urgent p99 ms", "p99 highest", "bound ms", "low lane's share")
URGENT_PER_SECOND = 20.0
_SECONDS, _CHECK_SECONDS = 8.0, 2.0
_SETTLE_SECONDS = 3.0
"""Under both loads before it counts: the first records of a run meet cold memory and a broker that still compiles."""
_LIMIT_SECONDS = 2.0
_MARGIN_MS = 20.0
_BACKLOG = 1.6
"""Of what the low lane could answer in that time, so that it never runs dry."""


@dataclass(frozen=True)
class Attended:
    """One run."""

    latencies: list[float]
    low_share: float | None


class Lanes:
    """The lanes scenario: with priorities, and the same two topics without."""

    name = "lanes"

    def __init__(self, workload: Workload = FRAMES) -> None:
        self._workload = workload

    def run(self, context: Context) -> Section:
        """See :class:`benchmarks.scenarios.scenario.Scenario`."""
        title = f"{URGENT_PER_SECOND:g} urgent requests/s beside a full low lane: {self._workload.title}"
        section = Section(self.name, title, COLUMNS)
        bound = 2 * self._batch_ms(context) + _MARGIN_MS
        for contestant in context.pick(("headrace",)):
            for has_lanes in (True, False):
                play = functools.partial(self._play, context, has_lanes=has_lanes)
                found = context.rounds([contestant], section, play)
                for name, rounds in found.items():
                    section.rows.append(_describe(name, rounds, bound, has_lanes=has_lanes))
        section.notes += [
            "Bound: two batches' service time (decode, forward, encode of a full batch on one thread) and 20 ms.",
            "The low lane's share: of the answers read while both lanes are full.",
        ]
        return section

    def _batch_ms(self, context: Context) -> float:
        limit = CONTESTANTS["decode-and-model"]
        per_second = context.arena.measure_limit(self._workload, limit, _LIMIT_SECONDS).per_second
        return self._workload.batch_size * limit.processes / per_second * 1000

    def _play(self, context: Context, contestant: Contestant, *, has_lanes: bool) -> Attended:
        arena, workload = context.arena, self._workload
        seconds = _CHECK_SECONDS if context.options.is_check else _SECONDS
        count = int(_BACKLOG * (seconds + _SETTLE_SECONDS) * context.capacity(workload, contestant))
        low, urgent = arena.make_topic(workload, "low"), arena.make_topic(workload, "urgent")
        payloads = arena.prepare(workload).payloads
        arena.topics.publish(low, lambda number: payloads[number % len(payloads)], count, workload.content_type)
        settings = _settings(low, urgent, has_lanes=has_lanes)
        with (
            arena.serving(workload, contestant, urgent, settings) as serving,
            open_loop(arena.bootstrap, serving.results, payloads, workload.content_type, serving.check) as loop,
        ):
            loop.warm_up(urgent, START_SECONDS, rounds=1)
            loop.send(urgent, schedule_arrivals([Phase(URGENT_PER_SECOND, _SETTLE_SECONDS)]), "settle-")
            due_at = loop.send(urgent, schedule_arrivals([Phase(URGENT_PER_SECOND, seconds)]), "urgent-")
            loop.wait(due_at, START_SECONDS)
            closed_at = max(due_at.values()) + START_SECONDS
            latencies = list(corrected_latencies(due_at, dict(loop.readable.at), closed_at).values())
            share = _measure_share(workload, loop, urgent, count) if has_lanes else None
        arena.topics.drop(low, urgent)
        return Attended(latencies, share)


def _measure_share(workload: Workload, loop: OpenLoop, urgent: str, count: int) -> float:
    """Fill the urgent lane too, and count whose answers come while it is."""
    before = len(loop.readable.at)
    low_left = count - sum(1 for request in loop.readable.at if request.isdigit())
    flood = max(1, min(low_left // 2, 20 * workload.batch_size))
    due_at = loop.send(urgent, [0.0] * flood, "flood-")
    if not loop.wait(due_at, START_SECONDS):
        raise ContestantFailedError("the urgent flood was not answered")
    since = list(loop.readable.at)[before:]
    last = max(number for number, request in enumerate(since) if request in due_at)
    first = min(number for number, request in enumerate(since) if request in due_at)
    between = since[first:last]
    return sum(1 for request in between if request not in due_at) / max(1, len(between))


def _settings(low: str, urgent: str, *, has_lanes: bool) -> dict[str, Any]:
    topics: dict[str, Any] = {"topics": {"requests": [urgent, low]}}
    if has_lanes:
        topics["topics"]["priorities"] = {urgent: 0, low: 1}
    return merge(read_overlay(OVERLAYS / "latency.yaml"), topics)


def _describe(name: str, rounds: Sequence[Attended], bound_ms: float, *, has_lanes: bool) -> dict[str, Any]:
    p99 = summarise([percentile(one.latencies, 0.99) * 1000 for one in rounds])
    shares = [one.low_share for one in rounds if one.low_share is not None]
    return {
        "contestant": name,
        "lanes": "priorities" if has_lanes else "none",
        "urgent p50 ms": summarise([percentile(one.latencies, 0.5) * 1000 for one in rounds]).median,
        "urgent p99 ms": p99.median,
        "p99 highest": p99.high,
        "bound ms": bound_ms,
        "low lane's share": f"{summarise(shares).median:.0%}" if shares else "-",
    }
