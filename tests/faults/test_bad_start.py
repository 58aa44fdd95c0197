"""Workers that cannot start: red, a line that says why, and a non-zero exit after a limit; never green and idle."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from headrace.cli import main
from tests.faults.conftest import Rig
from tests.faults.harness import FaultRun
from tests.faults.worker_process import WorkerProcess, ask_health, wait_until
from tests.models.store_builder import CLASSES, publish

NOWHERE = "127.0.0.1:1"
LIMIT_SECONDS = 2
MODEL = {"name": "test", "version": "v1", "classes": CLASSES, "instances": 1}


@dataclass
class Start:
    """One worker that is meant to fail, and how."""

    groups: dict[str, dict[str, Any]]
    exit_code: int
    says: str
    worker: WorkerProcess | None = None
    was_red: bool = False


def starts(run: FaultRun) -> dict[str, Start]:
    return {
        "topic missing": Start({"topics": {"requests": ["not-there"]}}, 4, "missing topics: not-there"),
        "broker unreachable": Start({"kafka": {"bootstrap": NOWHERE}}, 4, f"Kafka at {NOWHERE} does not answer"),
        "Redis unreachable": Start(
            {"redis": {"url": f"redis://{NOWHERE}/0"}, "model": {"version": None}}, 4, "Redis: ConnectionError"
        ),
        "set-up raises": Start({"model": {"version": "refuses"}}, 1, "this version never loads"),
        "dead letters to an input": Start(
            {"topics": {"dead_letters": run.topics.requests[0]}}, 2, "must all be different topics"
        ),
    }


@pytest.fixture(scope="module")
def failed(shared_rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Start]]:
    """Start them all at once, watch their readiness, and wait until each has ended."""
    folder = tmp_path_factory.mktemp("bad-start")
    publish(folder / "store")
    publish(folder / "store", "refuses", refuse=True)
    with (
        FaultRun(shared_rig, f"start-{folder.name}", folder, partitions=1, proxied=False) as run,
        contextlib.ExitStack() as stack,
    ):
        every = starts(run)
        for number, start in enumerate(every.values()):
            start.worker = launch(run, folder / f"start-{number}", start)
            stack.callback(start.worker.stop)
        wait_until(lambda: sum(watch(start) for start in every.values()) == 0, 90, "all have ended")
        yield every


def launch(run: FaultRun, folder: Path, start: Start) -> WorkerProcess:
    folder.mkdir()
    worker = {"start_timeout_seconds": LIMIT_SECONDS, "state_dir": str(folder / "state"), "max_restarts": 1}
    settings = run.settings(model=MODEL)
    for group, values in {**start.groups, "worker": worker}.items():
        settings[group] = {**settings.get(group, {}), **values}
    config = folder / "headrace.yaml"
    config.write_text(yaml.safe_dump(settings))
    process = WorkerProcess(config, folder / "worker.log")
    process.start()
    return process


def watch(start: Start) -> bool:
    """Look at the readiness of a worker; True while it runs. A green one fails the test at once."""
    assert start.worker is not None
    if start.worker.is_running():
        with contextlib.suppress(OSError, IndexError):
            status, _ = ask_health(start.worker.log, "ready")
            assert status == 503
            start.was_red = True
        return True
    return False


@pytest.mark.parametrize(
    "name",
    [
        "topic missing",
        "broker unreachable",
        "Redis unreachable",
        "set-up raises",
        "dead letters to an input",
    ],
)
def test_a_worker_that_cannot_start_is_red_says_why_and_ends(failed: dict[str, Start], name: str) -> None:
    start = failed[name]
    assert start.worker is not None
    assert start.worker.terminate() == start.exit_code, start.worker.last_words()
    assert start.says in start.worker.last_words(8000)
    assert not start.worker.orphans()
    assert start.was_red or name == "dead letters to an input"


class Canary:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("suffix", [".pt", ".bin", ".safetensors"])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_is_refused_as_weights_and_never_run(tmp_path: Path, suffix: str, *, zipped: bool) -> None:
    canary, weights, config = tmp_path / "canary", tmp_path / f"weights{suffix}", tmp_path / "headrace.yaml"
    config.write_text(yaml.safe_dump({"store": {"root": str(tmp_path / "store")}, "model": {"classes": CLASSES}}))
    torch.save({"weight": Canary(canary)}, weights, _use_new_zipfile_serialization=zipped)
    arguments = ["models", "publish", "m", "v1", "--weights", weights, "--class", "obedient", "--config", config]
    assert main([str(argument) for argument in arguments]) != 0
    assert not canary.exists()
    assert not (tmp_path / "store" / "m" / "v1").exists()
