"""The soak of switches, short: the ledger counts, times are left to a quiet machine."""

from pathlib import Path

import pytest
from rich.console import Console

from tests.faults.conftest import Rig
from tests.faults.harness import FaultRun
from tests.faults.switch_models import MODELS
from tests.faults.switch_soak import PARTITIONS, SoakPlan, SwitchSoak


@pytest.mark.timeout(180)
def test_switches_by_command_with_kills_in_the_middle_keep_every_record_and_every_cut(
    rig: Rig, unique: str, tmp_path: Path
) -> None:
    # Seed 1: a model process is killed, then Redis restarts.
    plan = SoakPlan(MODELS["mlp"](), 6, with_faults=True, seed=1, calm_seconds=0.2, with_replay=False)
    with FaultRun(rig, unique, tmp_path, partitions=PARTITIONS, proxied=False) as run:
        report = SwitchSoak(run, plan, Console()).conduct()
    assert len(report.rounds) == 6
    assert sum(bool(one.fault) for one in report.rounds) == 2
    assert report.is_held(with_timing=False), [row for row in report.rows if row.is_held is False]
