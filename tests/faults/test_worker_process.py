"""The harness's hands, on a stand-in for the worker that has the same process tree."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.faults.worker_process import Role, WorkerProcess, wait_until

SUPERVISOR = """
import signal, subprocess, sys
print("supervising", sys.argv[1:], flush=True)
children = [subprocess.Popen([sys.executable, "-m", "stream_workers.member"]) for _ in range(2)]
def stop(*_):
    for child in children:
        child.kill()
        child.wait()
    sys.exit(7)
signal.signal(signal.SIGTERM, stop)
while True:
    signal.pause()
"""
MEMBER = """
import pathlib, signal, subprocess, sys
pathlib.Path("/proc/self/comm").write_text("hr-worker-0")  # a member that holds a slot
subprocess.Popen([sys.executable, "-m", "stream_workers.pipeline.model_process"])
while True:
    signal.pause()
"""
MODEL_PROCESS = """
import signal
while True:
    signal.pause()
"""


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    for name, text in (
        ("headrace/__main__.py", SUPERVISOR),
        ("stream_workers/member.py", MEMBER),
        ("stream_workers/pipeline/model_process.py", MODEL_PROCESS),
    ):
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    process = WorkerProcess(tmp_path / "config.yaml", tmp_path / "log", project=tmp_path / "project")
    process.start()
    process.wait_for(Role.MODEL_PROCESS, 2, 20)
    yield process
    process.stop()


def test_processes_are_found_by_what_they_do(worker: WorkerProcess) -> None:
    assert [len(worker.processes(role)) for role in Role] == [1, 2, 2]
    assert "supervising ['worker', '--config'" in worker.last_words()


def test_a_killed_member_is_gone_and_only_it(worker: WorkerProcess) -> None:
    victim = worker.kill(Role.MEMBER, 1)
    assert not victim.is_running() or victim.status() == psutil.STATUS_ZOMBIE
    assert len(worker.processes(Role.MEMBER)) == 1
    assert worker.is_running()


def test_a_paused_process_stands_still_until_it_is_resumed(worker: WorkerProcess) -> None:
    paused = worker.pause(Role.MODEL_PROCESS)
    wait_until(lambda: paused.status() == psutil.STATUS_STOPPED, 5, "stopped")
    worker.resume(paused)
    wait_until(lambda: paused.status() != psutil.STATUS_STOPPED, 5, "continued")


def test_what_outlives_a_killed_supervisor_is_an_orphan_and_does_not_outlive_stop(worker: WorkerProcess) -> None:
    assert worker.orphans() == []
    worker.kill(Role.SUPERVISOR)
    left = worker.orphans()
    assert len(left) == 4
    worker.stop()
    wait_until(lambda: not worker.orphans(), 5, "no orphan")


def test_terminating_returns_the_exit_code(worker: WorkerProcess) -> None:
    assert worker.terminate() == 7


def test_a_role_without_a_process_says_so_with_the_log(worker: WorkerProcess) -> None:
    with pytest.raises(LookupError, match="2 of MEMBER"):
        worker.signal(Role.MEMBER, signal.SIGKILL, 5)
