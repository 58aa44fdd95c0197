"""Workers that come and go while a slow model has batches in hand and every partition is paused."""

import re
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from producers.kafka_publisher import Publisher
from schemas.records import JSON
from tests.faults.conftest import Rig
from tests.faults.harness import FaultRun
from tests.faults.load import LoadShape, numbers_row
from tests.faults.worker_process import WorkerProcess, wait_until
from tests.models import store_builder

BATCH_SECONDS, BATCH_SIZE = 1.0, 128
DRAIN_SECONDS = 5.0
GRACE_SECONDS = 3.0
BURST = 1000

pytestmark = pytest.mark.timeout(240)


def read_metric(worker: WorkerProcess, name: str) -> float:
    """The sum of a metric over the worker's members; 0 while there is none."""
    ports = re.findall(r'"port": (\d+), "event": "health endpoint"', worker.log.read_text())
    with urllib.request.urlopen(f"http://127.0.0.1:{ports[-1]}/metrics", timeout=5) as reply:
        text = reply.read().decode()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))


def count_assignments(worker: WorkerProcess) -> int:
    """How often a member of this worker was given at least one partition."""
    return len(re.findall(r'"partitions": \["[^\]]*\], "event": "partitions assigned"', worker.log.read_text()))


def stop(worker: WorkerProcess) -> None:
    began = time.monotonic()
    assert worker.terminate() == 0
    assert time.monotonic() - began < DRAIN_SECONDS + GRACE_SECONDS


def restart(worker: WorkerProcess) -> None:
    stop(worker)
    given = count_assignments(worker)
    worker.start()
    wait_until(lambda: count_assignments(worker) > given, 60, "restarted")


def publish_burst(publisher: Publisher) -> None:
    for number in range(BURST):
        publisher.publish(numbers_row(number), content_type=JSON, key=f"burst-{number % 40}")
    publisher.flush()


def test_scaling_and_rolling_restarts_of_slow_workers_abort_lose_and_double_nothing(
    rig: Rig, unique: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    settings = {
        "model": {"name": "test", "version": "v1", "classes": store_builder.CLASSES},
        "worker": {"session_timeout_ms": 3000, "drain_seconds": DRAIN_SECONDS, "queue_bytes": 1 << 20},
        "batching": {"max_batch_size": BATCH_SIZE, "slots": 2},
        "limits": {"payload_bytes": 1 << 16},
    }
    with FaultRun(rig, unique, tmp_path, proxied=False) as run:
        store_builder.publish(run.folder / "store", model_class="tardy", batch_seconds=BATCH_SECONDS)
        first = run.start_worker(**settings)
        with (
            Publisher(rig.direct, run.topics.requests[0]) as publisher,
            run.load(LoadShape(records_per_second=60)) as load,
        ):
            publish_burst(publisher)
            wait_until(lambda: read_metric(first, "headrace_partitions_paused") > 0, 20, "partitions paused")

            second = run.add_worker("second", **settings)
            wait_until(lambda: second.log.exists() and count_assignments(second) == 1, 60, "the second has partitions")
            for worker in (first, second):
                restart(worker)
            given = count_assignments(first)
            stop(second)
            wait_until(lambda: count_assignments(first) > given, 30, "the first has everything")
            run.wait_until_answering(60)
        outcome = run.finish(load)
        record_property("longest_pause_seconds", round(outcome.longest_pause_seconds, 2))
        print(f"longest pause with batches of {BATCH_SECONDS:g} s: {outcome.longest_pause_seconds:.2f} s")
        outcome.check()
        aborted = run.aborted_outcomes()
        stop(first)
        assert run.count_in_log('"everything_committed": true') == 4
        assert run.count_in_log('"everything_committed": false') == 0
        # A transaction that meets the end of a generation is refused and sent again; nothing else aborts one.
        assert run.count_in_log('"starting over"') == run.count_in_log('"reason": "ILLEGAL_GENERATION')
        print(f"outcomes aborted by rebalances and sent again: {aborted}")
    assert outcome.longest_pause_seconds < 60
