"""The only broker goes away, cleanly and by SIGKILL, under load: the workers come back by themselves."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.local_stack.stack import LocalStack
from tests.faults.conftest import Rig
from tests.faults.harness import FaultRun
from tests.faults.load import LoadShape
from tests.faults.worker_process import ask_health, wait_until

pytestmark = pytest.mark.timeout(240)


# Shorter than the session, at the end of which a member is out of its group anyway.
DOWN_SECONDS = 3.0


def misses_the_broker(run: FaultRun) -> bool:
    status, text = ask_health(run.worker.log, "ready")
    return status == 503 and "no connection to a Kafka broker" in text


def test_a_broker_that_restarts_or_crashes_costs_no_record_and_no_worker(
    shared_rig: Rig, unique: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with LocalStack(tmp_path / "stack") as stack:
        rig = Rig(stack, shared_rig.proxy)
        with FaultRun(rig, unique, tmp_path, proxied=False) as run:
            run.start_worker(members=2)
            with run.load(LoadShape(records_per_second=200)) as load:
                for kill in (False, True):
                    time.sleep(3.0)
                    with ThreadPoolExecutor(1) as other:
                        restart = other.submit(stack.restart_broker, kill=kill, down_seconds=DOWN_SECONDS)
                        wait_until(lambda: misses_the_broker(run), DOWN_SECONDS + 10, "the worker is not ready")
                        restart.result()
                    up_at = time.monotonic()
                    run.wait_until_answering(60)
                    name = "killed" if kill else "restarted"
                    record_property(f"answering_after_broker_{name}_seconds", round(time.monotonic() - up_at, 2))
                    print(f"broker {name}: answering {time.monotonic() - up_at:.2f} s after it was up")
                time.sleep(2.0)
            outcome = run.finish(load)
            record_property("longest_pause_seconds", round(outcome.longest_pause_seconds, 2))
            print(f"longest pause, the broker's own start included: {outcome.longest_pause_seconds:.2f} s")
            outcome.check()
            assert load.failures == []
            assert run.worker.is_running()
            assert run.worker.terminate() == 0
