"""Members, model processes and supervisors killed or paused under load. Counts are asserted, pauses printed."""

import json
import random
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from producers.audit.findings import Kind
from tests.faults.conftest import Rig
from tests.faults.harness import FaultRun, Outcome
from tests.faults.load import LoadShape
from tests.faults.worker_process import Role, ask_health, wait_until

SESSION_MS = 3000
KILLS = 4
KILL_EVERY_SECONDS = 3.0
LONGEST_PAUSE_SECONDS = 60.0

BATCH_TIMEOUT_SECONDS = 2.0

Note = Callable[[str, object], None]

pytestmark = pytest.mark.timeout(300)


def tell(note: Note, name: str, outcome: Outcome, begin: float, end: float) -> None:
    """Print and record the longest pause of a part of the load."""
    seconds = outcome.longest_pause_between(begin, end)
    note(name, round(seconds, 2))
    print(f"{name}: longest pause {seconds:.2f} s")
    assert seconds < LONGEST_PAUSE_SECONDS, name


def wait_for_members(run: FaultRun, count: int) -> list[psutil.Process]:
    return run.worker.wait_for(Role.MEMBER, count, 20)


def kill_member(run: FaultRun, chance: random.Random) -> None:
    began = time.monotonic()
    wait_for_members(run, 2)
    run.worker.kill(Role.MEMBER, chance.randrange(2))
    time.sleep(max(0.0, KILL_EVERY_SECONDS - (time.monotonic() - began)))


def kill_model_processes(run: FaultRun, chance: random.Random) -> None:
    for _ in range(3):
        run.worker.kill(Role.MODEL_PROCESS, chance.randrange(2))
        run.worker.wait_for(Role.MODEL_PROCESS, 2, 20)
        run.wait_until_answering(20)


def pause_model_process(run: FaultRun, _: random.Random) -> None:
    # One that is still loading has no batch to be stuck with: what ends it is the time limit of a load.
    wait_until(lambda: ask_health(run.worker.log, "ready")[0] == 200, 30, "both model processes serve")
    paused = run.worker.pause(Role.MODEL_PROCESS)
    wait_until(lambda: not psutil.pid_exists(paused.pid), 20, "the watchdog killed it")
    run.worker.wait_for(Role.MODEL_PROCESS, 2, 20)
    run.wait_until_answering(20)


def kill_members(run: FaultRun, chance: random.Random) -> None:
    for _ in range(KILLS):
        kill_member(run, chance)


def kill_members_and_model_processes(run: FaultRun, chance: random.Random) -> None:
    for _ in range(2):
        run.worker.wait_for(Role.MODEL_PROCESS, 2, 20)
        run.worker.kill(Role.MODEL_PROCESS, chance.randrange(2))
        kill_member(run, chance)


def pause_member_past_its_session(run: FaultRun, chance: random.Random) -> None:
    wait_for_members(run, 2)
    # One that has not joined yet has no session to lose.
    wait_until(lambda: ask_health(run.worker.log, "ready")[0] == 200, 30, "both members serve")
    zombie = run.worker.pause(Role.MEMBER, chance.randrange(2))
    lost_at = run.count_rebalances()
    wait_until(lambda: run.count_rebalances() > lost_at, 30, "the other member took its partitions")
    time.sleep(1.0)
    run.worker.resume(zombie)
    lost_at = run.count_rebalances()
    wait_until(lambda: run.count_rebalances() > lost_at, 30, "the zombie is back")
    run.wait_until_answering(30)


def kill_supervisor(run: FaultRun, _: random.Random) -> None:
    run.worker.kill(Role.SUPERVISOR)
    killed_at = time.monotonic()
    wait_until(lambda: not run.worker.orphans(), 5, "no orphan")
    assert time.monotonic() - killed_at < 1.0
    run.worker.start()
    run.wait_until_answering(60)


Faults = Mapping[str, Callable[[FaultRun, random.Random], None]]

MODEL_PROCESS_FAULTS: Faults = {
    "model processes killed": kill_model_processes,
    "a model process paused": pause_model_process,
}
MEMBER_FAULTS: Faults = {
    "members killed": kill_members,
    "members and model processes killed": kill_members_and_model_processes,
    "a member paused past its session": pause_member_past_its_session,
    "the supervisor killed": kill_supervisor,
}


def inflict(faults: Faults, run: FaultRun, chance: random.Random) -> list[tuple[str, float]]:
    """Inflict one fault after the other. Returns when each began, in seconds of the wall clock."""
    begins = []
    for name, fault in faults.items():
        begins.append((name, time.time()))
        fault(run, chance)
    return begins


def test_kills_and_pauses_of_every_process_of_a_worker_lose_and_double_nothing(
    rig: Rig, unique: str, tmp_path: Path, record_property: Note
) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    with FaultRun(rig, unique, tmp_path) as run:
        run.start_worker(
            members=2,
            worker={"session_timeout_ms": SESSION_MS, "max_restarts": 50},
            model={"batch_timeout_seconds": BATCH_TIMEOUT_SECONDS},
        )
        wait_until(lambda: run.count_rebalances() >= 2, 20, "both members have partitions")
        time.sleep(1.0)
        with run.load() as load:
            time.sleep(1.0)
            before = run.count_rebalances()
            begins = inflict(MODEL_PROCESS_FAULTS, run, chance)
            assert run.count_rebalances() == before, "the group must not notice what happens to a model process"
            begins += [*inflict(MEMBER_FAULTS, run, chance), ("the end", time.time())]
        outcome = run.finish(load)
        for (name, begin), (_, end) in pairwise(begins):
            tell(record_property, name, outcome, begin, end)
        outcome.check()
        assert run.worker.terminate() == 0
        assert run.worker.orphans() == []


def test_at_least_once_a_kill_may_repeat_outcomes_and_loses_none(
    rig: Rig, unique: str, tmp_path: Path, record_property: Note
) -> None:
    with FaultRun(rig, unique, tmp_path) as run:
        run.start_worker(members=2, worker={"delivery": "at_least_once", "session_timeout_ms": SESSION_MS})
        with run.load(LoadShape(records_per_second=300)) as load:
            begin = time.time()
            for index in (0, 1, 0):
                time.sleep(2.0)
                wait_for_members(run, 2)
                run.worker.kill(Role.MEMBER, index)
            run.worker.kill(Role.MODEL_PROCESS, 0)
            time.sleep(2.0)
            end = time.time()
        outcome = run.finish(load)
        tell(record_property, "at least once, members killed", outcome, begin, end)
    assert outcome.acknowledged is not None
    for report in (outcome.report, outcome.acknowledged):
        found = {kind: report.count(kind) for kind in Kind if kind not in (Kind.DOUBLED, Kind.OUT_OF_ORDER)}
        assert not any(found.values()), json.dumps(report.to_json())
    print(f"outcomes repeated: {outcome.report.count(Kind.DOUBLED)}")
