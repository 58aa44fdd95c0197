"""The outside world before a worker starts: one place for the worker itself and for `headrace worker check`."""

import time
from collections.abc import Callable

import structlog

from schemas.settings import Settings
from stream_workers.kafka.cluster_check import ClusterFacts, await_cluster

_REPEAT_SECONDS = 10.0

_log = structlog.get_logger("start-up")


class WaitLog:
    """Says what is being waited for: at once when that is news, and again every ten seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, event: str = "waiting") -> None:
        self._clock = clock
        self._event = event
        self._reason = ""
        self._said_at = 0.0

    def __call__(self, reason: str) -> None:
        """Waiting, because of `reason`."""
        now = self._clock()
        if reason != self._reason or now - self._said_at >= _REPEAT_SECONDS:
            self._reason, self._said_at = reason, now
            _log.warning(self._event, reason=reason)

    def over(self) -> None:
        """What was waited for is there; said once, if anything was said before."""
        if self._reason:
            _log.info(f"over: {self._event}", reason=self._reason)
            self._reason = ""


def check_outside(
    settings: Settings, *, wait_seconds: float | None = None, on_wait: Callable[[str], None] | None = None
) -> ClusterFacts:
    """Reach Kafka and find every topic; logs what could be better.

    Waits at most `wait_seconds`, by default the start-up limit of the settings.
    Raises StartUpTimeoutError or ConfigurationError, each naming what is wrong.
    """
    limit = settings.worker.start_timeout_seconds if wait_seconds is None else wait_seconds
    facts = await_cluster(settings, time.monotonic() + limit, on_wait or WaitLog())
    for warning in facts.warnings:
        _log.warning("topics", reason=warning)
    return facts
