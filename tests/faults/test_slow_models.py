"""Models slower than every limit of the group: nobody leaves it, and every record is answered."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from producers.kafka_publisher import Publisher
from producers.result_reader import ResultReader
from schemas.records import JSON
from tests.faults.conftest import Rig
from tests.faults.harness import FaultRun
from tests.faults.load import LoadShape
from tests.faults.worker_process import Role, wait_until
from tests.models import store_builder

LIMITS = {"max_poll_interval_ms": 4000, "session_timeout_ms": 2000, "drain_seconds": 0.8}
LONGER_SECONDS = 6.0

pytestmark = pytest.mark.timeout(180)


def tardy(run: FaultRun, **options: float) -> dict[str, Any]:
    """Publish the slow model; returns the model settings for it."""
    store_builder.publish(run.folder / "store", model_class="tardy", **options)
    return {"name": "test", "version": "v1", "classes": store_builder.CLASSES}


def number(nth: int) -> bytes:
    return json.dumps({"x": nth}).encode()


def test_loads_batches_and_preprocessing_longer_than_the_poll_interval_cost_no_membership(
    rig: Rig, unique: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with FaultRun(rig, unique, tmp_path) as run:
        run.start_worker(members=2, worker=LIMITS, model=tardy(run, load_seconds=LONGER_SECONDS))
        wait_until(lambda: run.count_in_log('"partitions assigned"') >= 2, 20, "both members have partitions")
        run.wait_until_answering(20)
        time.sleep(1.0)
        before = run.count_rebalances()
        with (
            ResultReader(rig.direct, run.topics.results, run.topics.dead_letters) as reader,
            Publisher(rig.direct, run.topics.requests[0]) as publisher,
            run.load(LoadShape(records_per_second=40, payload=number)) as load,
        ):
            for key, slowness in (("one", {"sleep": LONGER_SECONDS}), ("two", {"hold": LONGER_SECONDS})):
                body = json.dumps({"x": 1, **slowness}).encode()
                request_id = publisher.publish(body, content_type=JSON, key=key)
                publisher.flush()
                assert reader.wait_for(request_id, 40).status.value == "ok"
            # A model process that takes longer to load than a member may stay away.
            run.worker.kill(Role.MODEL_PROCESS, 0)
            run.worker.kill(Role.MODEL_PROCESS, 0)
            wait_until(lambda: run.count_in_log('"loaded"') >= 4, 30, "both models loaded again")
        outcome = run.finish(load)
        record_property("longest_pause_seconds", round(outcome.longest_pause_seconds, 2))
        print(f"longest pause with models of {LONGER_SECONDS:g} s: {outcome.longest_pause_seconds:.2f} s")
        outcome.check()
        assert run.count_rebalances() == before
        assert run.worker.terminate() == 0

        # Told to stop while the model loads: there is nothing to wait for.
        loads = run.count_in_log('"loading"')
        run.worker.start()
        wait_until(lambda: run.count_in_log('"loading"') == loads + 2, 20, "loading")
        began = time.monotonic()
        assert run.worker.terminate() == 0
        assert time.monotonic() - began < LONGER_SECONDS
