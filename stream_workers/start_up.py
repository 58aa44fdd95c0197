"""The outside world before a worker starts: one place for the worker itself and for `headrace worker check`."""

import time
from collections.abc import Callable

import structlog

from schemas.settings import Settings
from stream_workers.kafka.cluster_check import ClusterFacts, await_cluster

_log = structlog.get_logger("start-up")


def log_wait(reason: str) -> None:
    """Say what is being waited for."""
    _log.warning("waiting", reason=reason)


def check_outside(
    settings: Settings, *, wait_seconds: float | None = None, on_wait: Callable[[str], None] = log_wait
) -> ClusterFacts:
    """Reach Kafka and find every topic. Waits at most `wait_seconds`, by default the start-up limit of the settings.

    Raises StartUpTimeoutError or ConfigurationError, each naming what is wrong.
    """
    limit = settings.worker.start_timeout_seconds if wait_seconds is None else wait_seconds
    return await_cluster(settings, time.monotonic() + limit, on_wait)
