"""One server process: started on a tether, waited for until it is ready, stopped, killed, paused."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from headrace.local_stack.tether import tethered_command
from schemas.errors import StartUpTimeoutError, UnavailableError, scrub

POLL_SECONDS = 0.05
TAIL_BYTES = 2000


class ServiceProcess:
    """A server that never outlives this process, whichever thread starts it and however this process ends."""

    def __init__(self, name: str, output_path: Path, environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._output_path = output_path
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._starter: ThreadPoolExecutor | None = None

    @property
    def pid(self) -> int:
        """The server's process id.

        :raises UnavailableError: it is not running.
        """
        if self._process is None:
            raise UnavailableError(f"{self.name} is not running")
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the process runs (or is paused)."""
        return self._process is not None and self._process.poll() is None

    def start(self, command: Sequence[str], is_ready: Callable[[], bool], limit_seconds: float) -> None:
        """Start the command and return once `is_ready` says so. On any failure the process is gone again.

        :raises UnavailableError: the process ended before it was ready; the end of its output is in the message.
        :raises StartUpTimeoutError: it was not ready within the limit.
        """
        # A tether holds to the thread that starts the child, and a caller's thread may end early: hence one of our own.
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"{self.name}-tether")
        try:
            self._process = self._starter.submit(self._spawn, tethered_command(command)).result()
            self._wait_until_ready(is_ready, time.monotonic() + limit_seconds)
        except BaseException:
            self.kill()
            raise

    def stop(self, limit_seconds: float) -> None:
        """Ask the process to end and wait; kill it after the limit. Does nothing when it is not running."""
        if self._process is not None:
            self.resume()
            self._signal(signal.SIGTERM)
            try:
                self._process.wait(limit_seconds)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
        self._forget()

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        self._signal(signal.SIGKILL)
        self._forget()

    def pause(self) -> None:
        """Freeze the process: its connections stay open and nothing answers once this returns."""
        self._signal(signal.SIGSTOP)
        if self.is_alive():
            # A signal is only sent by then: threads on other cores answer on until the whole process has stopped.
            # The state is left to be waited for, so that an ended process is still collected by its owner.
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._signal(signal.SIGCONT)

    def explain_end(self) -> str:
        """How the process ended, its last words, and where the rest of them is."""
        code = None if self._process is None else self._process.poll()
        how = "not running" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"{how}; its output is in {self._output_path}: {self.read_output()}".rstrip(": ")

    def read_output(self) -> str:
        """The end of what the process has printed since it was started, fit for an error message."""
        try:
            printed = self._output_path.read_bytes()[-TAIL_BYTES:]
        except OSError:
            return ""
        return scrub(printed.decode(errors="replace").strip(), limit=TAIL_BYTES)

    def _spawn(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        environment = None if self._environment is None else {**os.environ, **self._environment}
        try:
            with self._output_path.open("wb") as output:
                # Its own session, so that Ctrl-C in a terminal reaches us alone and we stop things in order.
                return subprocess.Popen(  # noqa: S603 the command is built by the local stack, without a shell
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env=environment,
                )
        except OSError as error:
            raise UnavailableError(f"cannot start {self.name}: {error.strerror or error}") from error

    def _wait_until_ready(self, is_ready: Callable[[], bool], deadline: float) -> None:
        while self.is_alive():
            if is_ready():
                return
            if time.monotonic() > deadline:
                raise StartUpTimeoutError(f"{self.name} did not answer in time: {self.read_output()}")
            time.sleep(POLL_SECONDS)
        raise UnavailableError(f"{self.name} ended while it started: {self.read_output()}")

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _forget(self) -> None:
        if self._process is not None:
            self._process.wait()
            self._process = None
        if self._starter is not None:
            self._starter.shutdown()
            self._starter = None
