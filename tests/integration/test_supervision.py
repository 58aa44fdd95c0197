"""A real supervisor over real processes: who is restarted, who is ended, what the health endpoint says meanwhile."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from schemas.configuration import dump_settings
from stream_workers.links.messages import from_model_decoder
from stream_workers.supervision.child_process import ChildProcess
from tests.fakes.local_fleet import CHECKOUT, child_environment, settings_for
from tests.models.store_builder import publish


class DrivenWorker:
    """A supervisor in a process of its own, over members without Kafka."""

    def __init__(self, tmp_path: Path, **groups: dict[str, Any]) -> None:
        self.folder = tmp_path
        self.commands = tmp_path / "commands"
        self.log = tmp_path / "log"
        model = {"version": "v1", **groups.pop("model", {})}
        settings = settings_for(tmp_path, model=model, health={"port": 0}, **groups)
        (tmp_path / "settings").write_bytes(dump_settings(settings))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.models.driven_worker", str(tmp_path / "settings")],
                cwd=CHECKOUT,
                env={**child_environment(), "DRIVEN_COMMANDS": str(self.commands)},
                stderr=log,
                start_new_session=True,
            )

    def children(self, module: str = "") -> list[psutil.Process]:
        found = []
        for child in psutil.Process(self.process.pid).children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if module in " ".join(child.cmdline()):
                    found.append(child)
        return found

    def members(self) -> list[psutil.Process]:
        return self.children("tests.models.driven_member")

    def models(self) -> list[psutil.Process]:
        return self.children("model_process")

    def get(self, path: str) -> tuple[int, str]:
        port = re.search(r'"port": (\d+)', self.log.read_text())
        if port is None:
            return 0, "no port yet"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}{path}", timeout=5) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def metric(self, name: str, labels: str = 'slot="w-0"') -> float:
        match = re.search(rf"^{name}\{{{re.escape(labels)}\}} (\S+)$", self.get("/metrics")[1], re.MULTILINE)
        return float(match[1]) if match else -1.0

    def is_ready(self) -> bool:
        return self.get("/ready")[0] == 200

    def obey(self, command: str) -> None:
        self.commands.write_text(command)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> float:
    """Return the seconds that it took; fails after `seconds`."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise TimeoutError(f"not within {seconds} s")
        time.sleep(0.01)
    return time.monotonic() - began


def is_dead(process: psutil.Process) -> bool:
    """True for a zombie too: whoever inherits it will reap it in its own time."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrivenWorker]:
    tmp_path = tmp_path_factory.mktemp("worker")
    publish(tmp_path / "store")
    publish(tmp_path / "store", "v2", marker=True)
    driven = DrivenWorker(tmp_path, model={"keep_warm_seconds": 0})
    wait_until(driven.is_ready)
    yield driven
    driven.close()


def test_a_killed_member_is_back_at_once_and_its_model_stays_warm(worker: DrivenWorker) -> None:
    (member,), (model,) = worker.members(), worker.models()
    member.kill()
    seconds = wait_until(lambda: worker.metric("driven_pid") not in (-1.0, float(member.pid)))
    assert worker.metric("headrace_restarts_total", 'slot="w-0",role="member"') >= 1
    assert worker.models() == [model]
    wait_until(lambda: worker.metric("driven_right") > 5)
    assert worker.metric("driven_lost") == 0
    print(f"member back after {seconds:.2f} s")


def test_a_killed_model_process_turns_readiness_red_and_is_replaced_without_touching_the_member(
    worker: DrivenWorker,
) -> None:
    wait_until(worker.is_ready)
    (member,), (model,) = worker.members(), worker.models()
    model.kill()
    red_after = wait_until(lambda: not worker.is_ready())
    assert red_after < 5
    assert "no model" in worker.get("/ready")[1]
    wait_until(worker.is_ready)
    assert worker.members() == [member]
    assert worker.metric("headrace_restarts_total", 'slot="w-0",role="model"') >= 1


def test_a_switch_runs_over_a_second_process(worker: DrivenWorker) -> None:
    wait_until(worker.is_ready)
    (model,) = worker.models()
    lost_before = worker.metric("driven_lost")
    worker.obey("serve v2 3")
    wait_until(lambda: worker.metric("driven_epoch") == 3)
    wait_until(lambda: len(worker.models()) == 1 and worker.models() != [model])
    assert worker.metric("driven_lost") == lost_before
    assert worker.metric("driven_refused") == 0


def test_a_member_that_is_stopped_turns_readiness_red_within_five_seconds(worker: DrivenWorker) -> None:
    wait_until(worker.is_ready)
    (member,) = worker.members()
    member.suspend()
    try:
        assert wait_until(lambda: not worker.is_ready()) < 5
        assert "silent" in worker.get("/ready")[1]
        assert worker.get("/live") == (200, "alive\n")
    finally:
        member.resume()
    wait_until(worker.is_ready)
    assert worker.members() == [member]


def test_only_three_pages_exist_and_each_family_is_described_once(worker: DrivenWorker) -> None:
    assert worker.get("/secrets")[0] == 404
    text = worker.get("/metrics")[1]
    described = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert len(described) == len(set(described)) > 3


def test_sigterm_lets_members_finish_and_ends_with_zero(worker: DrivenWorker) -> None:
    """The last one of the shared worker."""
    wait_until(worker.is_ready)
    children = worker.children()
    worker.process.terminate()
    assert worker.process.wait(timeout=10) == 0
    assert all(is_dead(child) for child in children)


def test_a_killed_supervisor_leaves_no_process_within_a_second(tmp_path: Path) -> None:
    publish(tmp_path / "store")
    driven = DrivenWorker(tmp_path)
    try:
        wait_until(driven.is_ready)
        orphans = driven.children()
        assert len(orphans) == 2
        driven.process.kill()
        wait_until(lambda: all(is_dead(orphan) for orphan in orphans), seconds=1.0)
    finally:
        driven.close()


@pytest.mark.parametrize(("said", "code"), [(2, 2), (4, 4), (1, 1)])
def test_a_member_that_cannot_start_ends_the_worker_with_the_right_code(tmp_path: Path, said: int, code: int) -> None:
    (tmp_path / "commands").write_text(f"exit {said}")
    driven = DrivenWorker(tmp_path, model={"version": None}, worker={"max_restarts": 3})
    try:
        assert driven.process.wait(timeout=30) == code
    finally:
        driven.close()


def test_what_a_child_started_ends_with_it(tmp_path: Path) -> None:
    environment = {**child_environment(), "GRANDCHILD": str(tmp_path / "pid")}
    child = ChildProcess.start("tests.models.parent_of_one", from_model_decoder, environment)
    wait_until(lambda: child.poll() is not None)
    grandchild = int((tmp_path / "pid").read_text())
    wait_until(lambda: not psutil.pid_exists(grandchild) or is_dead(psutil.Process(grandchild)), seconds=1.0)
    child.close()


def test_a_fixed_version_that_is_not_there_ends_the_worker(tmp_path: Path) -> None:
    publish(tmp_path / "store")
    driven = DrivenWorker(tmp_path, model={"version": "missing"})
    try:
        assert driven.process.wait(timeout=30) == 2
        assert "VersionNotFoundError" in driven.log.read_text()
    finally:
        driven.close()


def test_a_model_that_dies_on_everything_is_a_crash_loop(tmp_path: Path) -> None:
    publish(tmp_path / "store", die=True)
    driven = DrivenWorker(tmp_path, worker={"max_restarts": 1})
    try:
        assert driven.process.wait(timeout=60) == 1
        assert "again and again" in driven.log.read_text()
    finally:
        driven.close()


def test_two_workers_of_one_name_take_different_slots_and_a_taken_port_stops_neither(tmp_path: Path) -> None:
    publish(tmp_path / "store")
    first = DrivenWorker(tmp_path)
    try:
        wait_until(first.is_ready)
        second_path = tmp_path / "second"
        second_path.mkdir()
        taken = re.search(r'"port": (\d+)', first.log.read_text())
        assert taken is not None
        settings = settings_for(tmp_path, model={"version": "v1"}, health={"port": int(taken[1])})
        (second_path / "settings").write_bytes(dump_settings(settings))
        second = subprocess.Popen(
            [sys.executable, "-m", "tests.models.driven_worker", str(second_path / "settings")],
            cwd=CHECKOUT,
            env={**child_environment(), "DRIVEN_COMMANDS": str(second_path / "commands")},
            stderr=subprocess.PIPE,
        )
        try:
            seen = b""
            assert second.stderr is not None
            while b"member started" not in seen:
                seen += second.stderr.readline()
            assert b"no health endpoint" in seen
            assert b'"slot": "w-1"' in seen
        finally:
            os.kill(second.pid, signal.SIGTERM)
            second.communicate(timeout=10)
    finally:
        first.close()


def test_a_spare_takes_the_slot_of_a_killed_member_and_another_spare_follows(tmp_path: Path) -> None:
    publish(tmp_path / "store")
    driven = DrivenWorker(tmp_path, worker={"warm_spare": True})
    try:
        wait_until(driven.is_ready)
        wait_until(lambda: len(driven.members()) == 2)
        (member,) = [process for process in driven.members() if process.name().startswith("hr-")]
        (spare,) = [process for process in driven.members() if process != member]
        member.kill()
        wait_until(lambda: driven.metric("driven_pid") == float(spare.pid))
        assert spare.name() == "hr-w-0"
        wait_until(lambda: len(driven.members()) == 2)
    finally:
        driven.close()
