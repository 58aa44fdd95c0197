"""Switches of versions under load, with kills, pauses and a Redis that restarts: who met what, to the record."""

import time
from pathlib import Path

import pytest

from tests.faults.conftest import Rig
from tests.faults.harness import MODEL, FaultRun, publish_example_model
from tests.faults.load import LoadShape
from tests.faults.switches import Switches, count_cut_partitions, expect_met, read_cuts, read_met, replay
from tests.faults.worker_process import Role

PARTITIONS, MEMBERS, SWITCHES = 4, 2, 6
SHAPE = LoadShape(records_per_second=200, streams=40)

pytestmark = pytest.mark.timeout(180)


def publish(run: FaultRun) -> None:
    """Two versions whose answers differ."""
    publish_example_model(run.folder / "store")
    publish_example_model(run.folder / "store", "v2", seed=1)


def start(run: FaultRun) -> Switches:
    """A worker that follows the pointer, with both versions warm in both members."""
    publish(run)
    switches = Switches(run)
    switches.activate("v1")
    run.start_worker(members=MEMBERS, **switches.settings(batching={"max_batch_size": 16}))
    switches.prepare("v2", members=MEMBERS)
    return switches


def test_exact_and_immediate_switches_cut_each_partition_once_and_a_replay_meets_the_same(
    rig: Rig, unique: str, tmp_path: Path
) -> None:
    with FaultRun(rig, unique, tmp_path, proxied=False) as run:
        switches = start(run)
        with run.load(SHAPE) as load:
            for number in range(SWITCHES):
                version = "v1" if number % 2 else "v2"
                if number % 3:
                    switches.wait_until_adopted(switches.activate(version), MEMBERS)
                else:
                    switches.wait_until_adopted(switches.arm(version), MEMBERS)
                    time.sleep(2.1)
                time.sleep(0.3)
        run.finish(load, decisions=switches.decisions).check()
        timeline = switches.read()
        met = read_met(run)
        assert met == expect_met(run, timeline)
        touched = count_cut_partitions(met, timeline)
        assert all(touched[epoch] == PARTITIONS for epoch in range(2, SWITCHES + 2)), touched

        cuts = read_cuts(run)
        run.worker.terminate()
        assert read_met(run, replay(run, PARTITIONS, **switches.settings())) == met
        # The replay found all cuts: it made none of its own.
        assert read_cuts(run) == cuts


def test_a_member_that_was_frozen_or_killed_through_a_switch_meets_it_all_the_same(
    rig: Rig, unique: str, tmp_path: Path
) -> None:
    with FaultRun(rig, unique, tmp_path, proxied=False) as run:
        switches = start(run)
        with run.load(SHAPE) as load:
            frozen = run.worker.pause(Role.MEMBER)
            switches.arm("v2")
            time.sleep(2.5)
            run.worker.resume(frozen)
            time.sleep(1.0)
            switches.activate("v1")
            run.worker.kill(Role.MEMBER, 1)
            time.sleep(1.5)
            switches.arm("v2")
            time.sleep(1.9)
            run.worker.kill(Role.MEMBER)
            time.sleep(2.0)
        run.finish(load, decisions=switches.decisions).check()
        timeline = switches.read()
        met = read_met(run)
        assert met == expect_met(run, timeline)
        assert {epoch for _, epoch in met.values()} == {1, 2, 3, 4}


def test_switches_around_a_restart_of_redis(rig: Rig, unique: str, tmp_path: Path) -> None:
    with FaultRun(rig, unique, tmp_path, proxied=False) as run:
        switches = start(run)
        with run.load(SHAPE) as load:
            switches.arm("v2")
            time.sleep(0.5)
            rig.stack.restart_redis()
            time.sleep(2.0)
            epoch = switches.activate("v1")
            switches.wait_until_adopted(epoch, MEMBERS)
            rig.stack.restart_redis()
            time.sleep(1.0)
        outcome = run.finish(load, decisions=switches.decisions)
        outcome.check()
        assert outcome.longest_pause_seconds < 1.5
        met = read_met(run)
        assert met == expect_met(run, switches.read())
        assert {epoch for _, epoch in met.values()} == {1, 2, 3}
        assert all(cut.model == MODEL for cut in read_cuts(run))
