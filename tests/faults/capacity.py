"""How much a worker can answer: as many requests as it takes, never more than so many ahead of the answers."""

import time

from producers.kafka_publisher import Publisher
from tests.faults.answer_watch import AnswerWatch
from tests.faults.harness import FaultRun
from tests.faults.switch_models import ServedModel
from tests.faults.worker_process import wait_until

STREAMS = 64
_WARM_UP_SECONDS = 3.0
_AHEAD_BATCHES = 24


def measure_capacity(run: FaultRun, served: ServedModel, watch: AnswerWatch, seconds: float) -> float:
    """Return outcomes a second under saturation, after a warm-up; everything sent is answered at the end."""
    ahead = _AHEAD_BATCHES * int(served.batching["max_batch_size"])
    before, sent, begin, counted = watch.count, 0, time.monotonic(), 0
    measured_from = begin + _WARM_UP_SECONDS
    with Publisher(run.rig.direct, run.topics.requests[0]) as publisher:
        while (now := time.monotonic()) < measured_from + seconds:
            if not counted and now >= measured_from:
                counted, measured_from = watch.count, now
            while sent - (watch.count - before) < ahead:
                publisher.publish(
                    served.payload(sent),
                    content_type=served.content_type,
                    key=f"stream-{sent % STREAMS}",
                    request_id=f"capacity{before}-{sent}",
                )
                sent += 1
            time.sleep(0.002)
        rate = (watch.count - counted) / (time.monotonic() - measured_from)
        publisher.flush()
    wait_until(lambda: watch.count - before >= sent, 60, "everything sent is answered")
    return rate
