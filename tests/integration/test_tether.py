"""The tether where the kernel offers none: a watcher process does the killing."""

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from headrace.local_stack import tether

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], "--", "sleep", "60"])
print(child.pid, flush=True)
child.wait()
"""
CHILD_ELSEWHERE = f"""
import runpy, sys
sys.platform = "elsewhere"
sys.argv = ["tether", *sys.argv[1:]]
runpy.run_path({str(Path(tether.__file__))!r}, run_name="__main__")
"""


def is_running(process: psutil.Process) -> bool:
    return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)


def test_the_watcher_kills_the_command_when_the_parent_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, CHILD_ELSEWHERE], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        command = psutil.Process(int(parent.stdout.readline()))
        deadline = time.monotonic() + 10
        while command.name() != "sleep" and time.monotonic() < deadline:
            time.sleep(0.02)
        watchers = command.children()
        assert len(watchers) == 1
        parent.kill()
        parent.wait()  # until it is collected, a dead process still counts as there
        left = psutil.wait_procs([command, *watchers], timeout=5)[1]
    if any(is_running(process) for process in left):
        pytest.fail(f"still there: {left}")
