"""What every scenario is given, and what it gives."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from benchmarks.contestants.catalogue import CONTESTANTS, Contestant, Family, select_contestants
from benchmarks.environments.environment import EnvironmentUnavailableError
from benchmarks.figures import summarise
from benchmarks.options import Options
from benchmarks.report.section import Section, Skipped
from benchmarks.runner.arena import Arena
from benchmarks.runner.machine import QUIET_CORES, measure_idle_load
from benchmarks.runner.processes import ContestantFailedError
from benchmarks.schedules import order_of_round
from benchmarks.workloads.specification import Workload

_Found = TypeVar("_Found")
_CAPACITY_RUNS = 3


@dataclass
class Context:
    """The run of the suite, as scenarios see it."""

    arena: Arena
    options: Options
    say: Callable[[str], None]
    """Shows one line of progress."""
    capacities: dict[tuple[str, str], float] = field(default_factory=dict)
    """Median records per second by workload and contestant, of what was measured in this run."""

    def capacity(self, workload: Workload, contestant: Contestant) -> float:
        """What a contestant can do, measured now if no scenario has done it. Raises as :meth:`Arena.measure`."""
        key = (workload.name, contestant.name)
        if key not in self.capacities:
            self.say(f"capacity of {contestant.name} on {workload.name}")
            count = workload.ladder[min(1, len(workload.ladder) - 1)]
            runs = 1 if self.options.is_check else _CAPACITY_RUNS
            rates = [self.arena.measure(workload, contestant, count).per_second for _ in range(runs)]
            self.capacities[key] = summarise(rates).median
        return self.capacities[key]

    def common_capacity(self, workload: Workload, contestants: Sequence[Contestant], section: Section) -> float:
        """A rate that both Headrace and the best peer among `contestants` can hold: the lower of the two.

        So neither is asked for more than it can do at the highest load. Who cannot be measured is not considered.
        Raises ContestantFailedError when nobody can.
        """
        best: dict[Family, float] = {}
        for one in contestants:
            try:
                rate = self.capacity(workload, one)
            except (ContestantFailedError, EnvironmentUnavailableError) as error:
                section.notes.append(f"The capacity of {one.name} could not be measured: {error}")
                continue
            best[one.family] = max(best.get(one.family, 0.0), rate)
        compared = [best[family] for family in (Family.HEADRACE, Family.PEER) if family in best] or list(best.values())
        if not compared:
            raise ContestantFailedError("nobody's capacity could be measured")
        return min(compared)

    def rounds(
        self,
        contestants: Sequence[Contestant],
        section: Section,
        play: Callable[[Contestant], _Found],
        limits: Mapping[str, int] | None = None,
    ) -> dict[str, list[_Found]]:
        """Play alternating rounds; `limits` says of some contestants in how many of them they take part.

        A contestant that fails once is out, and the section says why; it also says so when the machine was not quiet.
        """
        found: dict[str, list[_Found]] = {one.name: [] for one in contestants}
        by_name = {one.name: one for one in contestants}
        rounds = 1 if self.options.is_check else self.options.rounds
        loads = []
        for number in range(rounds):
            loads.append(round(measure_idle_load(), 2))
            for name in order_of_round([one for one in found if number < (limits or {}).get(one, rounds)], number):
                self.say(f"{section.name}: round {number + 1} of {rounds}, {name}")
                self._attempt(name, section, found, functools.partial(play, by_name[name]))
        section.details.setdefault("busy cores before the rounds", []).append(loads)
        if max(loads) > QUIET_CORES:
            section.notes.append(f"The machine was not quiet: busy cores before the rounds {loads}.")
        return {name: values for name, values in found.items() if values}

    def _attempt(self, name: str, section: Section, found: dict[str, list[_Found]], play: Callable[[], _Found]) -> None:
        try:
            found[name].append(play())
        except (ContestantFailedError, EnvironmentUnavailableError) as error:
            self.say(f"{name}: {error}")
            section.skipped.append(Skipped(name, str(error)))
            del found[name]

    def pick(self, names: Sequence[str]) -> list[Contestant]:
        """The contestants of a scenario that has a field of its own, thinned out by `--contestants`."""
        usual = [CONTESTANTS[name] for name in names] + list(self.options.overlays)
        wanted = self.options.contestants
        return select_contestants(wanted, self.options.overlays, core_only=False, quick=False) if wanted else usual


class Scenario(Protocol):
    """One question that the suite answers."""

    @property
    def name(self) -> str:
        """As `--only` has it."""

    def run(self, context: Context) -> Section:
        """Measure and report; a failing contestant is no error."""
