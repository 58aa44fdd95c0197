"""Canaries over a real worker, by the command that an operator types: what is good rises, what is worse goes back."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.exit_codes import ExitCode
from tests.faults.conftest import Rig
from tests.faults.harness import MODEL, FaultRun
from tests.faults.load import LoadShape
from tests.faults.switches import Switches, expect_met, read_met
from tests.faults.worker_process import PROJECT

SHAPE = LoadShape(records_per_second=400, streams=200)
STAGES, WINDOW_SECONDS = "20,100", 2
CLASSES = {MODEL: "tests.models.assured:Assured"}

pytestmark = pytest.mark.timeout(150)


def publish(run: FaultRun, version: str, **options: Any) -> None:
    import torch  # noqa: PLC0415 - only where a worker is really started

    from model_store.publishing import VersionDraft, publish_state  # noqa: PLC0415 - as above
    from model_store.store import ModelStore  # noqa: PLC0415
    from model_store.torch_loader import save_state  # noqa: PLC0415

    state = {"weight": torch.tensor([[2.0]]), "bias": torch.tensor([1.0])}
    publish_state(
        ModelStore(run.folder / "store"), VersionDraft(MODEL, version, MODEL, options=options), state, save_state
    )


def headrace(run: FaultRun, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Type a command with the settings of the worker."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    return subprocess.run(
        [sys.executable, "-m", "headrace", *arguments, "--config", str(run.folder / "worker.yaml")],
        cwd=PROJECT,
        env={**inherited, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def canary(run: FaultRun, version: str) -> subprocess.CompletedProcess[str]:
    options = ("--stages", STAGES, "--window", f"{WINDOW_SECONDS}s", "--min-results", "100", "--quality", "confidence")
    return headrace(run, "models", "canary", MODEL, version, *options)


@contextmanager
def serving(rig: Rig, unique: str, folder: Path) -> Iterator[tuple[FaultRun, Switches]]:
    """A worker under load with v1; at the end everything is proven, by the ledger and by the command."""
    with FaultRun(rig, unique, folder, proxied=False) as run:
        publish(run, "v1", confidence=0.9)
        switches = Switches(run)
        switches.activate("v1")
        run.start_worker(**switches.settings(model={"classes": CLASSES}, batching={"max_batch_size": 16}))
        with run.load(SHAPE) as load:
            yield run, switches
        run.finish(load, decisions=switches.decisions).check()
        assert read_met(run) == expect_met(run, switches.read())
        audit = headrace(run, "results", "--audit", "--format", "jsonl")
        assert (audit.returncode, json.loads(audit.stdout)["clean"]) == (ExitCode.OK, True), audit.stdout


def test_a_version_that_is_as_good_rises_to_a_hundred_percent(rig: Rig, unique: str, tmp_path: Path) -> None:
    with serving(rig, unique, tmp_path) as (run, switches):
        publish(run, "good", confidence=0.9)
        done = canary(run, "good")
    assert (done.returncode, done.stdout) == (ExitCode.OK, f"{MODEL} good epoch 3\n"), done.stderr
    assert [dict(entry.split) for entry in switches.read().entries] == [
        {"v1": 1},
        {"v1": 80, "good": 20},
        {"good": 1},
    ]
    assert {version for version, _ in read_met(run).values()} == {"v1", "good"}


def test_worse_versions_are_halted_within_the_window_and_the_one_before_answers_again(
    rig: Rig, unique: str, tmp_path: Path
) -> None:
    with serving(rig, unique, tmp_path) as (run, switches):
        publish(run, "unsure", confidence=0.5)
        # A tenth of the rows begins with it.
        publish(run, "failing", confidence=0.9, fails_at=3.5)
        halted = {name: canary(run, name) for name in ("unsure", "failing")}
    for name, done in halted.items():
        assert done.returncode == ExitCode.FAILED, done.stderr
        assert f"canary {name} halted at 20%: " in done.stderr
        assert "back to v1" in done.stderr
    assert "quality 0.5 against 0.9" in halted["unsure"].stderr
    assert "dead-lettered" in halted["failing"].stderr
    entries = switches.read().entries
    assert [set(entry.split) for entry in entries] == [{"v1"}, {"v1", "unsure"}, {"v1"}, {"v1", "failing"}, {"v1"}]
    for stage, back in (entries[1:3], entries[3:5]):
        # Within the window, with room for a machine that is busy.
        assert back.at_ms - stage.effective_from_ms < 1000 * WINDOW_SECONDS + 1500
    met = read_met(run)
    assert {version for version, _ in met.values()} == {"v1", "unsure", "failing"}
    assert max(epoch for _, epoch in met.values()) == entries[-1].epoch
