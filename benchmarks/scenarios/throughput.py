"""How many records per second: everybody answers the same backlog, in alternating rounds."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.contestants.catalogue import CONTESTANTS, Contestant, Family, select_contestants
from benchmarks.environments.environment import EnvironmentUnavailableError
from benchmarks.figures import choose_backlog, ratio, summarise
from benchmarks.report.section import Chart, Section, Skipped
from benchmarks.runner.arena import Run
from benchmarks.runner.machine import QUIET_CORES
from benchmarks.runner.processes import ContestantFailedError
from benchmarks.scenarios.scenario import Context
from benchmarks.workloads.specification import Workload

COLUMNS = (
    "contestant", "records/s", "lowest", "highest", "x best peer", "x overlapped", "of limit", "agreeing", "doubled",
    "rounds", "busy rounds",
)  # fmt: skip
_LIMIT_SECONDS = 2.0
_BEHIND = 0.5
_ROUNDS_BEHIND = 2
_START_SHARE = 1.25
"""A fifth of a backlog is read before the clock starts."""


class Throughput:
    """The throughput scenario of one workload."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload

    @property
    def name(self) -> str:
        """That of the workload."""
        return self._workload.name

    def run(self, context: Context) -> Section:
        """See :class:`benchmarks.scenarios.scenario.Scenario`."""
        section = Section(self.name, self._workload.title, COLUMNS)
        options = context.options
        if options.is_quick and not options.is_check:
            usual = self._workload.quick_records / (options.seconds * _START_SHARE)
            runs = self._play(context, section, dict.fromkeys((one.name for one in self._field(context)), usual))
        else:
            runs = self._try_out(context, section)
            if not options.is_check:
                runs = self._play(context, section, {name: run.per_second for name, (run, *_) in runs.items()})
        for name, values in runs.items():
            context.capacities[(self.name, name)] = summarise([run.per_second for run in values]).median
        self._report(section, runs)
        return section

    def _field(self, context: Context) -> list[Contestant]:
        options = context.options
        is_core_only = not self._workload.has_full_field
        return select_contestants(options.contestants, options.overlays, core_only=is_core_only, quick=options.is_quick)

    def _try_out(self, context: Context, section: Section) -> dict[str, list[Run]]:
        """Let everyone answer the smallest backlog: who fails is out, who is fast gets a longer one."""
        runs: dict[str, list[Run]] = {}
        for contestant in self._field(context):
            context.say(f"{self.name}: trial, {contestant.name}")
            try:
                runs[contestant.name] = [self._measure(context, contestant, self._workload.ladder[0])]
            except (ContestantFailedError, EnvironmentUnavailableError) as error:
                context.say(f"{contestant.name}: {error}")
                section.skipped.append(Skipped(contestant.name, str(error)))
        return runs

    def _play(self, context: Context, section: Section, rates: dict[str, float]) -> dict[str, list[Run]]:
        """`rates` are those of the trial. It is too short to be exact, so later rounds go by the round before."""
        contestants = [one for one in self._field(context) if one.name in rates]
        limits = {} if context.options.is_thorough else _limit_rounds(contestants, rates)
        backlogs = section.details.setdefault("backlogs", {})

        def play(contestant: Contestant) -> Run:
            wanted = context.options.seconds * _START_SHARE
            backlog = choose_backlog(rates[contestant.name], wanted, self._workload.ladder)
            run = self._measure(context, contestant, backlog)
            context.say(f"{self.name}: {contestant.name}: {run.per_second:,.0f}/s")
            rates[contestant.name] = run.per_second
            backlogs.setdefault(contestant.name, []).append(backlog)
            return run

        return context.rounds(contestants, section, play, limits)

    def _measure(self, context: Context, contestant: Contestant, backlog: int) -> Run:
        if contestant.family is Family.LIMIT and contestant.arguments:
            return context.arena.measure_limit(self._workload, contestant, _LIMIT_SECONDS)
        return context.arena.measure(self._workload, contestant, backlog)

    def _report(self, section: Section, runs: Mapping[str, Sequence[Run]]) -> None:
        medians = {name: summarise([run.per_second for run in values]).median for name, values in runs.items()}
        best_peer = max((name for name in medians if _family(name) is Family.PEER), key=medians.__getitem__, default="")
        limit = min((medians[name] for name in ("decode-and-model", "transport-alone") if name in medians), default=0.0)
        for name, values in sorted(runs.items(), key=lambda pair: -medians[pair[0]]):
            section.rows.append(
                _describe(name, values, medians.get(best_peer, 0.0), medians.get("overlapped", 0.0), limit)
            )
        section.details["rounds"] = {name: [run.per_second for run in values] for name, values in runs.items()}
        section.notes.append(f"Answers are compared with the model's own: {self._workload.tolerance.describe()}.")
        section.notes += _judge(medians, best_peer, limit)
        section.notes += [
            f"{row['contestant']} gave wrong answers: {row['agreeing']:.1%} agree."
            for row in section.rows
            if row["agreeing"] is not None and row["agreeing"] < 0.99
        ]
        reference = medians.get(best_peer, 0.0)
        section.charts.append(
            Chart(
                "bars",
                self._workload.title,
                "records per second",
                "",
                {name: [(0.0, median)] for name, median in medians.items()},
                reference=limit or None,
                suffixes={name: f"{ratio(median, reference):.2f}x" for name, median in medians.items() if reference},
            )
        )


def _limit_rounds(contestants: Sequence[Contestant], rates: Mapping[str, float]) -> dict[str, int]:
    """Peers far behind the best peer take part in two rounds only: no further one could change their place."""
    peers = [one.name for one in contestants if one.family is Family.PEER]
    best = max((rates[name] for name in peers), default=0.0)
    return {name: _ROUNDS_BEHIND for name in peers if rates[name] < _BEHIND * best}


def _family(name: str) -> Family:
    return CONTESTANTS[name].family if name in CONTESTANTS else Family.HEADRACE


def _describe(name: str, runs: Sequence[Run], best_peer: float, overlapped: float, limit: float) -> dict[str, Any]:
    spread = summarise([run.per_second for run in runs])
    compared = [run.agreement.share for run in runs if run.agreement is not None]
    return {
        "contestant": name,
        "records/s": spread.median,
        "lowest": spread.low,
        "highest": spread.high,
        "x best peer": ratio(spread.median, best_peer),
        "x overlapped": ratio(spread.median, overlapped),
        "of limit": ratio(spread.median, limit),
        "agreeing": min(compared, default=None),
        "doubled": sum(run.doubled for run in runs),
        "rounds": len(runs),
        "busy rounds": sum(1 for run in runs if run.foreign_cores > QUIET_CORES),
    }


def _judge(medians: Mapping[str, float], best_peer: str, limit: float) -> list[str]:
    """The comparisons that the suite exists for, in words."""
    ours = medians.get("headrace")
    if ours is None:
        return []
    notes = []
    if best_peer:
        notes.append(
            f"Exactly once reaches {ours / medians[best_peer]:.2f}x the best peer ({best_peer}, at least once)."
        )
    notes += [
        f"Exactly once reaches {ours / medians[name]:.2f}x {text}."
        for name, text in (
            ("overlapped", "the overlapped loop"),
            ("loop-per-core", "the tuned loop in a process per core"),
        )
        if name in medians
    ]
    if limit:
        notes.append(f"Exactly once reaches {ours / limit:.0%} of the limit (lower of decode-and-model and transport).")
    if "headrace-at-least-once" in medians:
        notes.append(f"Exactly once reaches {ours / medians['headrace-at-least-once']:.0%} of at-least-once.")
    return notes
