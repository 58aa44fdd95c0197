"""One switch after another as the commands make them, some with something killed in the middle."""

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from headrace.cli.model_access import open_control_plane, verify_versions
from headrace.cli.switch_author import find_author, real_clock
from model_store.model_switch import ModelSwitch
from model_store.switch_contract import SwitchOutcome, SwitchResult
from model_store.switch_request import DEFAULT_INSTANT, SwitchRequest, parse_split
from model_store.timeline import Timeline, TimelineEntry
from schemas.configuration import load_settings
from schemas.errors import PipelineError
from tests.faults.harness import FaultRun
from tests.faults.switches import Switches
from tests.faults.worker_process import PROJECT, Role, WorkerProcess, wait_until

EXACT, NOW, ROLLBACK = "exact", "now", "rollback"
FAULTS = ("member", "model process", "redis")
SETTLE_SECONDS = 1.0
_RECOVERY_SECONDS = 60.0


@dataclass(frozen=True)
class Round:
    """A switch and how it went."""

    number: int
    kind: str
    by_command: bool
    """Made by a `headrace` process; else by the same code in this process."""
    began: float
    """Epoch seconds, as all times here."""
    ended: float
    """When the switch was over and what it cost had time to show."""
    result: str
    entry: TimelineEntry | None
    reason: str = ""
    fault: str = ""
    called_off: int = 0
    """Tries before that ended with nothing changed."""
    stuck: str = ""
    """What is wrong with how it ended; empty when nothing is."""
    memory_bytes: int = 0
    """Of all processes of all workers, shared pages counted once."""

    @property
    def committed(self) -> float:
        """When it was decided."""
        return self.entry.at_ms / 1000 if self.entry is not None else self.began


def choose_kind(number: int) -> tuple[str, bool]:
    """Every other switch is exact; of the others every fifth is an activation, the rest go back, half by command."""
    if number % 2 == 0:
        return EXACT, False
    turn = number // 2
    return (NOW, False) if turn % 5 == 4 else (ROLLBACK, turn % 2 == 0)


class SwitchRounds:
    """Makes the switches of one run. `config` is the settings file of a worker."""

    def __init__(
        self,
        run: FaultRun,
        switches: Switches,
        workers: Sequence[WorkerProcess],
        versions: Sequence[str],
        config: Path,
        chance: random.Random,
    ) -> None:
        self._run = run
        self._switches = switches
        self._workers = workers
        self._versions = versions
        self._config = config
        self._chance = chance
        self._settings = load_settings(config, {})
        self._entries: dict[int, TimelineEntry] = {}
        self._turn = 0

    def timeline(self) -> Timeline:
        """Every decision of the run, also those that Redis has let go of."""
        self._note()
        return Timeline(tuple(entry for _, entry in sorted(self._entries.items())))

    def activate(self, version: str) -> None:
        """Switch at once, for a measurement of a version."""
        self._note()
        self._activate(version, exact=False)
        self.settle(version)

    def perform(self, number: int, fault: str = "") -> Round:
        """Make the nth switch, with one of FAULTS in the middle; one that came to nothing for that is made again."""
        kind, by_command = choose_kind(number)
        made = self._try(number, kind, fault, by_command=by_command)
        if fault and not made.stuck and made.entry is None:
            again = self._try(number, kind, "", by_command=by_command)
            made = replace(again, fault=fault, called_off=1, began=made.began)
        return made

    def settle(self, version: str, *, keeps_warm: bool = True) -> None:
        """Wait until every worker acts on the newest decision and has let go of what it does not keep."""
        epoch = self._switches.read().epoch

        def settled() -> bool:
            reports = self._switches.reports()
            return len(reports) == len(self._workers) and all(
                report.epoch == epoch and version in report.warm and (keeps_warm or len(report.warm) == 1)
                for report in reports
            )

        wait_until(settled, _RECOVERY_SECONDS, f"every worker serves {version} under epoch {epoch}")

    def _try(self, number: int, kind: str, fault: str, *, by_command: bool) -> Round:
        self._note()
        before = self._switches.read()
        target = self._choose(kind, before)
        act = self._make_action(kind, target, by_command=by_command)
        strike = threading.Thread(target=self._strike, args=(fault, 2.2 if kind == EXACT else 0.15))
        began = time.time()
        if fault:
            strike.start()
        result, reason = act()
        if fault:
            strike.join()
        after = self._read()
        self._note()
        entry = next((one for one in after.entries if one.epoch == before.epoch + 1), None)
        is_made = entry is not None and entry.epoch not in after.list_called_off()
        made = entry if is_made else None
        stuck = _find_fault(result, before, after, made, target, allowed=bool(fault))
        serving = next(iter(after.entries[-1].split))
        time.sleep(max(0.0, (after.entries[-1].effective_from_ms / 1000) - time.time()) + SETTLE_SECONDS)
        ended = time.time()
        self.settle(serving, keeps_warm=self._settings.model.keep_warm_seconds > 0)
        memory = sum(map(measure_memory, self._workers))
        return Round(number, kind, by_command, began, ended, result, made, reason, fault, 0, stuck, memory)

    def _choose(self, kind: str, before: Timeline) -> str:
        present = before.entries[-1].split
        if kind == ROLLBACK:
            return next(iter(before.with_rollback(None, before.epoch, 0).entries[-1].split))
        others = [version for version in self._versions if version not in present]
        self._turn += 1
        return others[self._turn // 2 % len(others)]

    def _make_action(self, kind: str, target: str, *, by_command: bool) -> Callable[[], tuple[str, str]]:
        if kind != ROLLBACK:
            return lambda: self._activate(target, exact=kind == EXACT)
        return self._roll_back_by_command if by_command else self._roll_back

    def _activate(self, version: str, *, exact: bool) -> tuple[str, str]:
        """As `headrace models activate` does."""
        split = parse_split([version])
        instant = DEFAULT_INSTANT if exact else None
        verify_versions(self._settings, self._settings.model.name, split)
        return self._command(lambda switch: switch.activate(SwitchRequest(split, instant, find_author("soak"))))

    def _roll_back(self) -> tuple[str, str]:
        """As `headrace models rollback` does."""
        return self._command(lambda switch: switch.roll_back(None, None, find_author("soak")))

    def _command(self, act: Callable[[ModelSwitch], SwitchOutcome]) -> tuple[str, str]:
        with open_control_plane(self._settings) as (live, workers):
            switch = ModelSwitch(self._settings.model.name, live, workers, real_clock(), lambda _: None)
            try:
                outcome = act(switch)
            except PipelineError as error:
                return SwitchResult.REFUSED.value, str(error)
        return outcome.result.value, outcome.reason

    def _roll_back_by_command(self) -> tuple[str, str]:
        command = [sys.executable, "-m", "headrace", "models", "rollback", self._settings.model.name]
        done = subprocess.run(
            [*command, "--config", str(self._config), "--reason", "soak"],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode:
            return SwitchResult.REFUSED.value, done.stderr.strip()[-300:]
        result = SwitchResult.UNCONFIRMED if "not yet confirmed" in done.stderr else SwitchResult.DONE
        return result.value, ""

    def _strike(self, fault: str, within_seconds: float) -> None:
        time.sleep(self._chance.uniform(0.0, within_seconds))
        if fault == "redis":
            self._run.rig.stack.restart_redis()
            return
        worker = self._chance.choice(self._workers)
        worker.signal(Role.MEMBER if fault == "member" else Role.MODEL_PROCESS, signal.SIGKILL)

    def _read(self) -> Timeline:
        """The timeline, once Redis answers."""
        give_up_at = time.monotonic() + _RECOVERY_SECONDS
        while True:
            try:
                return self._switches.read()
            except PipelineError:
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(0.05)

    def _note(self) -> None:
        self._entries.update({entry.epoch: entry for entry in self._read().entries})


def _find_fault(
    result: str, before: Timeline, after: Timeline, made: TimelineEntry | None, target: str, *, allowed: bool
) -> str:
    """Say what is wrong with how a switch ended. `allowed`: it may come to nothing, and then nothing may change."""
    if result == SwitchResult.DONE.value and (made is None or dict(made.split) != {target: 1}):
        return f"the command said that {target} is active, and {made} is stored"
    if result != SwitchResult.DONE.value and not allowed:
        return f"not done, though nothing was disturbed: {result}"
    if made is None and after.entries[-1].split != before.entries[-1].split:
        return f"{result}, and yet {dict(after.entries[-1].split)} is active"
    if made is not None and result in {SwitchResult.REFUSED.value, SwitchResult.CALLED_OFF.value}:
        return f"the command said {result}, and epoch {made.epoch} is stored"
    return ""


def measure_memory(worker: WorkerProcess) -> int:
    """Proportional set size of a worker's processes: pages that several share are counted once."""
    total = 0
    supervisor = psutil.Process(worker.pid)
    for process in (supervisor, *supervisor.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return total
