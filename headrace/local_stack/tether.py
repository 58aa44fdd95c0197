"""Run a command that cannot outlive the process which started it.

``python -m headrace.local_stack.tether [--parent PID] -- COMMAND [ARGUMENT ...]``

The command replaces this process, so its pid, signals and exit status are the caller's to use. When the caller dies,
even by SIGKILL, the command is killed. Imports the standard library only: it is also run as a bare file, without site
packages.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.25
EXIT_USAGE = 2
EXIT_ORPHANED = 3
EXIT_NOT_STARTED = 127


def tethered_command(command: Sequence[str], *, parent: int | None = None) -> list[str]:
    """The command line that runs `command` tethered to the process `parent`, by default this one.

    On Linux the tether is to the *thread* that starts the command: start it from one that lives as long as the command
    should.
    """
    this_file = str(Path(__file__).resolve())
    return [sys.executable, "-I", "-S", this_file, "--parent", str(parent or os.getpid()), "--", *command]


def parse_arguments(arguments: Sequence[str]) -> tuple[int | None, list[str]]:
    """Split the command line into the expected parent and the command.

    :raises ValueError: there is no command, or something else stands before ``--``.
    """
    if "--" not in arguments:
        raise ValueError("expected -- before the command")
    cut = list(arguments).index("--")
    options, command = list(arguments[:cut]), list(arguments[cut + 1 :])
    if not command:
        raise ValueError("no command after --")
    if not options:
        return None, command
    if len(options) == 2 and options[0] == "--parent":
        return int(options[1]), command
    raise ValueError(f"unknown options: {' '.join(options)}")


def main(arguments: Sequence[str]) -> int:
    """Tether this process and become the command. Returns, with an exit code, only when that failed."""
    try:
        parent, command = parse_arguments(arguments)
    except ValueError as error:
        print(f"tether: {error}", file=sys.stderr)
        return EXIT_USAGE
    expected = parent or os.getppid()
    if sys.platform == "linux":
        _die_with_parent()
    else:
        _fork_watcher(expected)
    # The parent may have died before the tether held; then this process has been handed to another one.
    if os.getppid() != expected:
        return EXIT_ORPHANED
    try:
        os.execvp(command[0], command)  # noqa: S606 the command comes from the caller's own code, and no shell is wanted
    except OSError as error:
        print(f"tether: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        return EXIT_NOT_STARTED


def _die_with_parent() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")


def _fork_watcher(expected_parent: int) -> None:
    """Leave a child behind that kills this process once `expected_parent` is gone, for systems without PDEATHSIG."""
    tethered = os.getpid()
    if os.fork() != 0:
        return
    os.setsid()
    while os.getppid() == tethered:
        if not _is_alive(expected_parent):
            os.kill(tethered, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    os._exit(0)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
