"""A member ends, or stalls, at every point of its work, one after the other in one run: the ledger stays clean."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stream_workers.supervision.slot import USEFUL_SECONDS
from tests.faults.conftest import Rig
from tests.faults.harness import FaultRun
from tests.faults.load import LoadShape
from tests.faults.points import FaultPoints
from tests.faults.request_faults import ApiKey
from tests.faults.worker_process import Role, wait_until

POINTS = ("after-poll", "mid-model", "after-first-send", "after-flush", "after-send-offsets", "after-commit")
START_POINTS = ("after-open", "after-assigned")
STALLS = ("stall-before-offsets", "stall-before-commit")
# Shorter than the stalls: the broker gives the transaction up before the member goes on.
TRANSACTION_TIMEOUT_MS = 3000


def wait_for_progress(run: FaultRun) -> None:
    """Wait until a request sent now is answered, then a moment longer: the member's next end is no crash loop."""
    run.wait_until_answering(30)
    time.sleep(USEFUL_SECONDS + 0.7)


def test_a_member_that_ends_or_stalls_anywhere_loses_and_doubles_nothing(
    rig: Rig, unique: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    points = FaultPoints(tmp_path / "points")
    with FaultRun(rig, unique, tmp_path) as run:
        run.start_worker(
            environment=points.environment,
            worker={"transaction_timeout_ms": TRANSACTION_TIMEOUT_MS, "session_timeout_ms": 3000, "max_restarts": 50},
        )
        with run.load(LoadShape(records_per_second=300)) as load:
            for point in POINTS:
                points.strike(point)
                wait_for_progress(run)
            for point in START_POINTS:
                points.arm(point)
                run.worker.kill(Role.MEMBER)
                points.wait_until_taken(point)
                wait_for_progress(run)
            for is_delivered_late in (False, True):
                held = rig.proxy.hold(ApiKey.END_TXN, 1, deliver_after=None, cut=False)
                assert held.struck.wait(20)
                run.worker.kill(Role.MEMBER)
                if is_delivered_late:
                    wait_for_progress(run)
                held.release()
                assert held.finished.wait(20)
                wait_for_progress(run)
            for count, point in enumerate(STALLS, 1):
                points.strike(point)
                # The broker has ended the transaction and raised the epoch: the member begins afresh.
                wait_until(lambda: run.count_in_log('"replaced or refused') >= count, 20, "a stall refused")  # noqa: B023 - waited for inside the loop
                wait_for_progress(run)
        outcome = run.finish(load)
        record_property("longest_pause_seconds", round(outcome.longest_pause_seconds, 2))
        print(f"longest pause: {outcome.longest_pause_seconds:.2f} s")
        outcome.check()
        assert run.aborted_outcomes() > 0
    assert outcome.longest_pause_seconds < 30


pytestmark = pytest.mark.timeout(180)
