"""A command that runs beside the demo until its result is needed."""

import os
import subprocess
from collections.abc import Mapping, Sequence

from headrace.local_stack.tether import tethered_command
from schemas.errors import UnavailableError, scrub

_SHOWN_CHARACTERS = 800


class BackgroundCommand:
    """Runs one command, tethered to this process and to the thread that starts it. `kill` must be called in the end."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._name = name
        self._command = command
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it. Raises UnavailableError when that is not possible."""
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the command is built by the demo, without a shell
                tethered_command(self._command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
                env={**os.environ, **self._environment},
            )
        except OSError as error:
            raise UnavailableError(f"cannot start {self._name}: {error.strerror or error}") from error

    def wait(self, limit_seconds: float) -> None:
        """Wait for its end. Raises UnavailableError, with its last words, when it fails or takes too long."""
        if self._process is None:
            return
        try:
            said, _ = self._process.communicate(timeout=limit_seconds)
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"{self._name} was not done within {limit_seconds:g} s") from None
        if self._process.returncode != 0:
            raise UnavailableError(f"{self._name} failed: {scrub(said.strip()[-_SHOWN_CHARACTERS:])}")

    def kill(self) -> None:
        """End it if it still runs."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
