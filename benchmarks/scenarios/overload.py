"""Three times as much as can be done, with deadlines: how many answers still come in time, and how soon all is well."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.contestants.catalogue import Contestant, Family
from benchmarks.figures import count_goodput, percentile, summarise
from benchmarks.report.section import Chart, Section
from benchmarks.runner.arena import START_SECONDS
from benchmarks.runner.open_loop import open_loop
from benchmarks.scenarios.scenario import Context
from benchmarks.schedules import Phase, schedule_arrivals
from benchmarks.workloads.specification import FRAMES, Workload

COLUMNS = (
    "contestant", "capacity", "goodput", "goodput share", "lowest share", "p99 before, ms", "back to normal, s",
    "expired", "unanswered",
)  # fmt: skip
FIELD = ("headrace", "overlapped", "bytewax-tuned")
DEADLINE_SECONDS = 1.0
CALM, OVERLOAD = 0.5, 3.0
_CALM_SECONDS, _OVERLOAD_SECONDS, _AFTER_SECONDS = 4.0, 8.0, 8.0
_WINDOW_SECONDS = 0.5
_NORMAL = 2.0
"""Latency is normal again below twice the p99 from before."""
_DRAIN_SECONDS = 2.0


@dataclass(frozen=True)
class Weathered:
    """One contestant through one overload."""

    goodput: list[float]
    """Per second, from the first request."""
    during: float
    before_p99_ms: float
    recovery_seconds: float | None
    expired: int
    unanswered: int


class Overload:
    """The overload scenario."""

    name = "overload"

    def __init__(self, workload: Workload = FRAMES) -> None:
        self._workload = workload

    def run(self, context: Context) -> Section:
        """See :class:`benchmarks.scenarios.scenario.Scenario`."""
        load = f"{OVERLOAD:g}x capacity for {_OVERLOAD_SECONDS:g} s, deadline {DEADLINE_SECONDS:g} s"
        title = f"{load}: {self._workload.title}"
        section = Section(self.name, title, COLUMNS)
        contestants = [one for one in context.pick(FIELD) if one.family is not Family.LIMIT]
        found = context.rounds(contestants, section, lambda one: self._play(context, one))
        for name, rounds in found.items():
            section.rows.append(self._describe(context, name, rounds))
        section.notes += [
            "Each is loaded by its own capacity. Goodput: answers of the model readable before their deadline.",
            "It is counted over the overload but its first second.",
            f"Normal again: from when on no half second has a median latency above {_NORMAL:g}x the p99 from before.",
        ]
        series = {
            f"{name} ({context.capacities[self._workload.name, name]:,.0f}/s)": [
                (float(second), rate) for second, rate in enumerate(rounds[-1].goodput)
            ]
            for name, rounds in found.items()
        }
        section.charts.append(Chart("lines", title, "seconds", "answers in time per second", series))
        return section

    def _play(self, context: Context, contestant: Contestant) -> Weathered:
        arena, workload = context.arena, self._workload
        capacity = context.capacity(workload, contestant)
        phases = [
            Phase(CALM * capacity, _CALM_SECONDS),
            Phase(OVERLOAD * capacity, _OVERLOAD_SECONDS),
            Phase(CALM * capacity, _AFTER_SECONDS),
        ]
        due = schedule_arrivals(phases)
        payloads = arena.prepare(workload).payloads
        with (
            arena.serving(workload, contestant) as serving,
            open_loop(arena.bootstrap, serving.results, payloads, workload.content_type, serving.check) as loop,
        ):
            loop.warm_up(serving.requests, START_SECONDS)
            sent = loop.send(serving.requests, due, "over-", DEADLINE_SECONDS)
            loop.wait(sent, _DRAIN_SECONDS)
            readable, expired = dict(loop.readable.at), set(loop.readable.expired)
        began = min(sent.values()) - due[0]
        due_at = {request: at - began for request, at in sent.items()}
        answered = {request: at - began for request, at in readable.items() if request in sent}
        return weigh(due_at, answered, expired & set(sent))

    def _describe(self, context: Context, name: str, rounds: Sequence[Weathered]) -> dict[str, object]:
        capacity = context.capacities[self._workload.name, name]
        shares = summarise([one.during / capacity for one in rounds])
        recoveries = [one.recovery_seconds for one in rounds]
        slowest = None if None in recoveries else max(one for one in recoveries if one is not None)
        return {
            "contestant": name,
            "capacity": capacity,
            "goodput": shares.median * capacity,
            "goodput share": shares.median,
            "lowest share": f"{shares.low:.0%}",
            "p99 before, ms": summarise([one.before_p99_ms for one in rounds]).median,
            "back to normal, s": "never" if slowest is None else slowest,
            "expired": sum(one.expired for one in rounds),
            "unanswered": sum(one.unanswered for one in rounds),
        }


def weigh(due_at: dict[str, float], answered_at: dict[str, float], expired: set[str]) -> Weathered:
    """Figures of one run, all times in seconds from its start. Pure."""
    good_at = {request: at for request, at in answered_at.items() if request not in expired}
    goodput = count_goodput(due_at, good_at, DEADLINE_SECONDS)
    first, last = int(_CALM_SECONDS) + 1, int(_CALM_SECONDS + _OVERLOAD_SECONDS)
    during = goodput[first:last]
    latencies = {request: answered_at[request] - due_at[request] for request in answered_at}
    calm = [latencies[one] for one in latencies if 1.0 <= due_at[one] < _CALM_SECONDS]
    before = percentile(calm, 0.99)
    return Weathered(
        goodput=goodput,
        during=sum(during) / max(1, len(during)),
        before_p99_ms=before * 1000,
        recovery_seconds=find_recovery(due_at, answered_at, _NORMAL * before),
        expired=len(expired),
        unanswered=sum(1 for request in due_at if request not in answered_at),
    )


def find_recovery(due_at: dict[str, float], answered_at: dict[str, float], normal_seconds: float) -> float | None:
    """Seconds from the end of the overload until latency stays normal; None when it does not. Pure."""
    end = _CALM_SECONDS + _OVERLOAD_SECONDS
    windows = round(_AFTER_SECONDS / _WINDOW_SECONDS)
    latest = end + _AFTER_SECONDS + _DRAIN_SECONDS
    samples: list[list[float]] = [[] for _ in range(windows)]
    for request, due in due_at.items():
        if end <= due < end + _AFTER_SECONDS:
            number = min(windows - 1, int((due - end) / _WINDOW_SECONDS))
            samples[number].append(answered_at.get(request, latest) - due)
    is_late = [bool(one) and percentile(one, 0.5) > normal_seconds for one in samples]
    if is_late and is_late[-1]:
        return None
    last_late = max((number for number, late in enumerate(is_late) if late), default=-1)
    return (last_late + 1) * _WINDOW_SECONDS
