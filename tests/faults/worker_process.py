"""A `headrace worker` as a process tree: start it, find its processes by what they do, kill, stop and continue them."""

import contextlib
import enum
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

PROJECT = Path(__file__).parents[2]


class Role(enum.Enum):
    """What a process of the tree does; the value is the module it runs, as its command line shows it."""

    SUPERVISOR = "headrace"
    MEMBER = "stream_workers.member"
    MODEL_PROCESS = "stream_workers.pipeline.model_process"


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for a condition. Raises TimeoutError that names it."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not true after {seconds:g} s")
        time.sleep(0.02)


def ask_health(log: Path, path: str) -> tuple[int, str]:
    """Ask the endpoint whose port is in the log."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if '"health endpoint"' in line]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{lines[-1]['port']}/{path}", timeout=5) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class WorkerProcess:
    """One worker on a settings file. Its output goes to `log`; nothing of it outlives `stop`, however it ends."""

    def __init__(
        self, config: Path, log: Path, *, environment: Mapping[str, str] | None = None, project: Path = PROJECT
    ) -> None:
        self._config = config
        self.log = log
        self._environment = dict(environment or {})
        self._project = project
        self._process: subprocess.Popen[bytes] | None = None
        self._known: dict[int, psutil.Process] = {}

    def start(self) -> None:
        """Start the supervisor. `HEADRACE_*` variables of this process do not reach it."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headrace", "worker", "--config", str(self._config)],
                cwd=self._project,
                env={**inherited, "PYTHONPATH": str(self._project), "PYTHONFAULTHANDLER": "1", **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._known[self._process.pid] = psutil.Process(self._process.pid)

    @property
    def pid(self) -> int:
        """The supervisor's process id."""
        if self._process is None:
            raise RuntimeError("the worker is not started")
        return self._process.pid

    def processes(self, role: Role) -> list[psutil.Process]:
        """The living processes of one role, oldest first."""
        if role is Role.SUPERVISOR:
            return [self._known[self.pid]] if self.is_running() else []
        found = [process for process in self._descendants() if role.value in _command_line(process)]
        return [process for process in found if role is not Role.MEMBER or _holds_slot(process)]

    def wait_for(self, role: Role, count: int, seconds: float = 60.0) -> list[psutil.Process]:
        """Wait until that many processes of a role live. Raises TimeoutError with the end of the log."""
        try:
            wait_until(lambda: len(self.processes(role)) >= count, seconds, f"{count} of {role.name}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.last_words()}") from None
        return self.processes(role)

    def kill(self, role: Role, index: int = 0) -> psutil.Process:
        """SIGKILL one process of a role and wait until it is gone."""
        victim = self.signal(role, signal.SIGKILL, index)
        if victim.pid == self.pid and self._process is not None:
            self._process.wait(10)
        wait_until(lambda: not _is_alive(victim), 10, f"{role.name} {victim.pid} gone")
        return victim

    def pause(self, role: Role, index: int = 0) -> psutil.Process:
        """SIGSTOP one process of a role; `resume` it by the process returned."""
        return self.signal(role, signal.SIGSTOP, index)

    def resume(self, process: psutil.Process) -> None:
        """SIGCONT a paused process; one that was killed meanwhile is left alone."""
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)

    def signal(self, role: Role, number: signal.Signals, index: int = 0) -> psutil.Process:
        """Send any signal to one process of a role, by age. Raises LookupError when there is none."""
        found = self.processes(role)
        if index >= len(found):
            raise LookupError(f"the worker has {len(found)} of {role.name}, none at {index}\n{self.last_words()}")
        found[index].send_signal(number)
        return found[index]

    def terminate(self, seconds: float = 30.0) -> int:
        """SIGTERM the supervisor, as an operator would, and return its exit code. Raises TimeoutExpired."""
        if self._process is None:
            raise RuntimeError("the worker is not started")
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(seconds)

    def is_running(self) -> bool:
        """Whether the supervisor lives."""
        return self._process is not None and self._process.poll() is None

    def orphans(self) -> list[psutil.Process]:
        """Processes of this worker that live although their supervisor does not."""
        self._descendants()
        return [] if self.is_running() else [process for process in self._known.values() if _is_alive(process)]

    def stop(self) -> None:
        """End whatever is left, by force."""
        self._descendants()
        for process in self._known.values():
            if _is_alive(process):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        if self._process is not None:
            self._process.wait(10)

    def last_words(self, size: int = 4000) -> str:
        """The end of the log."""
        return self.log.read_bytes()[-size:].decode(errors="replace") if self.log.exists() else "(no log)"

    def _descendants(self) -> list[psutil.Process]:
        """All living descendants; each is remembered, so that an orphan is still known to be ours."""
        for parent in list(self._known.values()):
            with contextlib.suppress(psutil.NoSuchProcess):
                for child in parent.children(recursive=True):
                    self._known.setdefault(child.pid, child)
        living = [process for process in self._known.values() if process.pid != self.pid and _is_alive(process)]
        return sorted(living, key=lambda process: process.create_time())


def _holds_slot(process: psutil.Process) -> bool:
    """False for the spare, which is a member process without a slot."""
    try:
        return bool(process.name().startswith("hr-"))
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def _is_alive(process: psutil.Process) -> bool:
    """Also false for a zombie, and for another process that was given the same id."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
