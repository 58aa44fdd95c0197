"""A soak of switches under load, some with something killed in the middle; then every record is audited and replayed.

`python -m tests.faults.switch_soak --switches 50 --model 100mb --no-faults` starts a Kafka and a Valkey of its own, and
two workers with a member each. It measures what they can answer, sends 70 % of that, switches as the commands do,
replays all of it to a new group, and prints what held. Exit code 1 unless all of it did.
"""

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.figures import percentile
from headrace.local_stack.stack import LocalStack
from tests.faults.answer_watch import AnswerWatch
from tests.faults.capacity import measure_capacity
from tests.faults.conftest import Rig
from tests.faults.harness import FaultRun, Outcome
from tests.faults.kafka_proxy import KafkaProxy
from tests.faults.load import Load, LoadShape
from tests.faults.switch_answers import Answers, count_differing, count_impostors, read_answers
from tests.faults.switch_log import read_meetings
from tests.faults.switch_models import MODELS, ServedModel
from tests.faults.switch_rounds import FAULTS, Round, SwitchRounds
from tests.faults.switch_verdict import (
    Row,
    count_row,
    judge_latency,
    judge_memory,
    judge_rollbacks,
    judge_rounds,
    judge_stalls,
)
from tests.faults.switches import Switches, expect_met, replay
from tests.faults.worker_process import WorkerProcess

PARTITIONS, WORKERS, SHARE = 8, ("alpha", "beta"), 0.7
EVERY_NTH_DISTURBED = 3


@dataclass(frozen=True)
class SoakPlan:
    """What is to be done."""

    served: ServedModel
    switches: int = 50
    with_faults: bool = False
    rate: float | None = None
    """Requests a second; None: 70 % of what is measured, or what the model says."""
    seed: int = 0
    calm_seconds: float = 2.0
    """Between switches, to compare with."""
    keep_warm_seconds: float = 600.0
    capacity_seconds: float = 8.0
    with_replay: bool = True


@dataclass
class SoakReport:
    """What came of it."""

    rows: list[Row] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)

    def is_held(self, *, with_timing: bool) -> bool:
        """Whether everything that has a bound is within it."""
        return not [row for row in self.rows if row.is_held is False and (with_timing or not row.is_timing)]


class SwitchSoak:
    """One run on servers that are up."""

    def __init__(self, run: FaultRun, plan: SoakPlan, console: Console) -> None:
        self._run = run
        self._plan = plan
        self._console = console
        self._switches = Switches(run, plan.served.name)
        self._report = SoakReport()

    def conduct(self) -> SoakReport:
        """Do all of it."""
        plan, run = self._plan, self._run
        with AnswerWatch(run.rig.direct, run.topics) as watch:
            workers = self._start_workers()
            config = run.folder / f"{WORKERS[0]}.yaml"
            chance = random.Random(plan.seed)
            rounds = SwitchRounds(run, self._switches, workers, plan.served.versions, config, chance)
            rate = plan.rate or self._measure_rate(rounds, watch)
            shape = LoadShape(
                rate, payload=plan.served.payload, content_type=plan.served.content_type, streams=8 * PARTITIONS
            )
            with run.load(shape) as load:
                time.sleep(plan.calm_seconds)
                for number in range(plan.switches):
                    self._make(rounds, number)
        outcome = run.finish(load, drain_seconds=120, decisions=lambda: self._switches.decisions(rounds.timeline()))
        answers = read_answers(run, run.topics)
        self._judge_ledger(outcome, load, answers, rounds)
        self._judge_times(watch, workers, answers)
        if plan.with_replay:
            self._replay(workers, answers, rate)
        return self._report

    def _settings(self) -> dict[str, dict[str, Any]]:
        served = self._plan.served
        model = {"name": served.name, "classes": served.classes, "keep_warm_seconds": self._plan.keep_warm_seconds}
        return self._switches.settings(model=model, batching=served.batching)

    def _start_workers(self) -> list[WorkerProcess]:
        run, served = self._run, self._plan.served
        self._say(f"publishing {', '.join(served.versions)} of {served.name}, starting two workers with a member each")
        served.publish(run.folder / "store")
        self._switches.activate(served.versions[0])
        workers = [run.add_worker(name, **self._settings()) for name in WORKERS]
        run.wait_until_answering(120, served.payload(0), served.content_type)
        return workers

    def _measure_rate(self, rounds: SwitchRounds, watch: AnswerWatch) -> float:
        plan = self._plan
        rounds.settle(plan.served.versions[0])
        if plan.served.rate is not None:
            return plan.served.rate
        found = {}
        for version in plan.served.versions:
            if version != plan.served.versions[0]:
                rounds.activate(version)
            found[version] = measure_capacity(self._run, plan.served, watch, plan.capacity_seconds)
            self._say(f"{version} answers {found[version]:.0f} requests a second at most")
        self._report.rows.append(
            Row("capacity, requests a second", ", ".join(f"{name} {rate:.0f}" for name, rate in found.items()))
        )
        return SHARE * min(found.values())

    def _make(self, rounds: SwitchRounds, number: int) -> None:
        plan = self._plan
        turn, rest = divmod(number + 1, EVERY_NTH_DISTURBED)
        fault = FAULTS[(turn + plan.seed) % len(FAULTS)] if plan.with_faults and not rest else ""
        made = rounds.perform(number, fault)
        self._report.rounds.append(made)
        target = ", ".join(made.entry.split) if made.entry is not None else "nothing"
        told = [f"switch {number + 1} of {plan.switches}: {made.kind} to {target}, {made.result}"]
        told += [f"{made.fault} killed" if made.fault else "", "made again" if made.called_off else "", made.stuck]
        told.append(f"{made.memory_bytes / 2**20:.0f} MiB")
        self._say(", ".join(filter(None, told)))
        time.sleep(plan.calm_seconds)

    def _judge_ledger(self, outcome: Outcome, load: Load, answers: Answers, rounds: SwitchRounds) -> None:
        reports = [report for report in (outcome.report, outcome.acknowledged) if report is not None]
        found = {kind.value: report.count(kind) for report in reports for kind in report.findings}
        expected = expect_met(self._run, rounds.timeline())
        met = {place: (answer.version, answer.epoch) for place, answer in answers.given.items()}
        wrong = sum(met.get(place) != version for place, version in expected.items())
        seconds = load.end_seconds - load.begin_seconds
        self._report.rows += [
            Row("requests", f"{load.acknowledged} in {seconds:.0f} s, {load.acknowledged / seconds:.0f} a second"),
            Row("audit", json.dumps(found) if found else "clean", "clean", all(report.clean for report in reports)),
            count_row("failed", answers.failed),
            count_row("met another version than append time and cuts say", wrong),
            count_row(
                "answered by another version than named", count_impostors(answers, len(self._plan.served.payloads))
            ),
            *judge_rounds(self._report.rounds),
        ]

    def _judge_times(self, watch: AnswerWatch, workers: Sequence[WorkerProcess], answers: Answers) -> None:
        rounds = self._report.rounds
        meetings = [read_meetings(worker.log.read_text().splitlines()) for worker in workers]
        service_seconds = percentile(answers.model_ms, 0.5) / 1000
        self._report.rows += [
            *judge_memory(rounds),
            *judge_latency(rounds, watch.latencies, service_seconds),
            *judge_stalls(rounds, meetings),
            *judge_rollbacks(rounds, meetings),
        ]

    def _replay(self, workers: Sequence[WorkerProcess], answers: Answers, rate: float) -> None:
        self._say(f"replaying {len(answers.given)} requests to a new group")
        for worker in workers:
            worker.terminate()
        oldest = self._switches.read().entries[0].epoch
        topics = replay(self._run, PARTITIONS, 120 + 2 * len(answers.given) / rate, **self._settings())
        compared, differing = count_differing(answers, read_answers(self._run, topics), oldest)
        left_out = len(answers.given) - compared
        self._report.rows += [
            count_row(f"replay: answers of {compared} that differ in a byte or a version", differing),
            *([Row("replay: older than the timeline, left out", str(left_out))] if left_out else []),
        ]

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(
        prog="switch_soak", description="switch versions under load and audit every record"
    )
    parser.add_argument("--switches", type=int, default=50)
    parser.add_argument("--model", choices=MODELS, default="100mb")
    parser.add_argument(
        "--faults", action=argparse.BooleanOptionalAction, default=False, help="disturb every third one"
    )
    parser.add_argument("--rate", default="auto", help="requests a second; auto: 70 %% of the measured capacity")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run's choices")
    parser.add_argument("--calm", type=float, default=2.0, help="seconds between switches")
    parser.add_argument(
        "--keep-warm", type=float, default=600.0, help="model.keep_warm_seconds; 0: load at every switch"
    )
    parser.add_argument("--capacity-seconds", type=float, default=8.0)
    parser.add_argument("--replay", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--timing", action=argparse.BooleanOptionalAction, default=True, help="judge times and memory")
    parser.add_argument("--out", type=Path, default=None, help="write the report as JSON")
    parser.add_argument("--keep-log", type=Path, default=None, help="copy the workers' logs into this folder")
    return parser.parse_args(arguments)


def draw(rows: Sequence[Row], *, with_timing: bool) -> Table:
    """Lay the verdict out."""
    table = Table("", "found", "bound", "", box=None, pad_edge=False)
    for row in rows:
        word = "" if row.is_held is None else "held" if row.is_held else "NOT HELD"
        word = "not judged" if row.is_timing and row.is_held is False and not with_timing else word
        table.add_row(row.what, row.value, row.bound, word, style="red" if word == "NOT HELD" else "")
    return table


def write_json(path: Path, report: SoakReport, facts: dict[str, Any]) -> None:
    """Write everything down."""
    rounds = [{**asdict(replace(one, entry=None)), "epoch": one.entry and one.entry.epoch} for one in report.rounds]
    rows = [asdict(row) for row in report.rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**facts, "rows": rows, "rounds": rounds}, indent=2) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the exit code."""
    options = parse(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 30)
    signal.signal(signal.SIGTERM, _interrupt)
    console = Console() if sys.stdout.isatty() else Console(width=200)
    console.print(f"seed {seed}")
    plan = SoakPlan(
        MODELS[options.model](),
        options.switches,
        options.faults,
        None if options.rate == "auto" else float(options.rate),
        seed,
        options.calm,
        options.keep_warm,
        options.capacity_seconds,
        options.replay,
    )
    with tempfile.TemporaryDirectory(prefix="headrace-switches-") as folder, KafkaProxy() as proxy:
        path = Path(folder)
        with (
            LocalStack(path / "stack") as stack,
            FaultRun(Rig(stack, proxy), "switch-soak", path, partitions=PARTITIONS, proxied=False) as run,
        ):
            try:
                report = SwitchSoak(run, plan, console).conduct()
            finally:
                if options.keep_log is not None:
                    options.keep_log.mkdir(parents=True, exist_ok=True)
                    for log in path.glob("*.log"):
                        (options.keep_log / log.name).write_bytes(log.read_bytes())
    console.print(draw(report.rows, with_timing=options.timing))
    if options.out is not None:
        write_json(options.out, report, {"seed": seed, "model": options.model, "switches": options.switches})
    is_held = report.is_held(with_timing=options.timing)
    console.print(f"seed {seed}: {'all of it held' if is_held else 'NOT HELD'}")
    return 0 if is_held else 1


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    # So that everything that was started is ended.
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
