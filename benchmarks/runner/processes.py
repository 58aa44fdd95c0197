"""Starting and ending the processes of a contestant."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.contestants.assignment import VARIABLE
from benchmarks.contestants.catalogue import Contestant

ROOT = Path(__file__).parents[2]
CONTESTANT_NICENESS = 5
_END_SECONDS = 20
_LOG_BYTES = 4000


class ContestantFailedError(Exception):
    """A contestant did not do what it should; says what, with its last words."""


def build_commands(contestant: Contestant, python: Path, settings: Path) -> list[list[str]]:
    """The command lines of all processes of a contestant."""
    if not contestant.module:
        return [[str(python), "-m", "headrace", "worker", "--config", str(settings)]]
    if contestant.environment == "bytewax":
        flow = [str(python), "-m", "bytewax.run", f"{contestant.module}:flow"]
        if contestant.processes == 1:
            return [flow]
        addresses = ";".join(f"127.0.0.1:{port}" for port in _free_ports(contestant.processes))
        return [[*flow, "-i", str(number), "-a", addresses] for number in range(contestant.processes)]
    return [[str(python), "-m", contestant.module, *contestant.arguments]] * contestant.processes


@contextlib.contextmanager
def running(commands: Sequence[Sequence[str]], assignment: Path, log: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run processes for the time of the block, each in a group of its own, their output in `log`."""
    environment: Mapping[str, str] = {**os.environ, VARIABLE: str(assignment), "PYTHONPATH": str(ROOT)}
    processes: list[subprocess.Popen[bytes]] = []
    with log.open("ab") as output:
        try:
            for command in commands:
                processes.append(
                    subprocess.Popen(  # noqa: S603 - our own modules, no shell
                        command, stdout=output, stderr=output, env=environment, cwd=ROOT, start_new_session=True
                    )
                )
                stand_back(processes[-1].pid)
            yield processes
        finally:
            _end(processes)


def stand_back(pid: int) -> None:
    """Let the session of a contestant give way to the broker and to what measures, which would have hosts of their own.

    Where sessions are scheduled as groups (autogroup), niceness means nothing between them, and threads of the broker
    that need the processor for a moment were seen to wait for it for 100 to 400 ms.
    """
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(CONTESTANT_NICENESS), encoding="ascii")


def check_alive(processes: Sequence[subprocess.Popen[bytes]], log: Path) -> None:
    """Raises ContestantFailedError when one has ended."""
    ended = next((process for process in processes if process.poll() is not None), None)
    if ended is not None:
        raise ContestantFailedError(f"ended with code {ended.returncode}: {read_last_words(log)}")


def read_last_words(log: Path) -> str:
    """The last line that says something."""
    lines = log.read_bytes()[-_LOG_BYTES:].decode(errors="replace").split("\n") if log.is_file() else []
    return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "no output")


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """SIGTERM to each process, then SIGKILL to whatever is left of its group."""
    for process in processes:
        process.terminate()
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
