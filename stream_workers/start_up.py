"""The outside world before a worker starts: one place for the worker itself and for `headrace worker check`."""

import time

from schemas.settings import Settings
from stream_workers.kafka.cluster_check import ClusterFacts, await_cluster


def check_outside(settings: Settings, *, wait_seconds: float | None = None) -> ClusterFacts:
    """Reach Kafka and find every topic. Waits at most `wait_seconds`, by default the start-up limit of the settings.

    Raises StartUpTimeoutError or ConfigurationError, each naming what is wrong.
    """
    limit = settings.worker.start_timeout_seconds if wait_seconds is None else wait_seconds
    return await_cluster(settings, time.monotonic() + limit)
