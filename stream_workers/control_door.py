"""The control plane of one model, as a member's thread asks it. Imported late, as the Redis client takes a while."""

from model_store.live_versions import HintListener, LiveVersions
from model_store.live_workers import LiveWorkers
from model_store.timeline import Timeline
from model_store.worker_reports import Orders, WorkerReport
from schemas.settings import RedisSettings

LONGEST_CALL_SECONDS = 0.4
"""Shorter than an operator may allow elsewhere: a look that fails must come to its end while the last one is fresh."""


class RedisControl:
    """Both Redis doors of one model; see :class:`stream_workers.version_following.ControlDoor`. For one thread."""

    def __init__(self, settings: RedisSettings, model: str) -> None:
        timeout_seconds = min(LONGEST_CALL_SECONDS, settings.timeout_seconds)
        bounded = settings.model_copy(update={"timeout_seconds": timeout_seconds})
        self._model = model
        self._versions, self._workers = LiveVersions(bounded), LiveWorkers(bounded)

    def read_timeline(self) -> Timeline | None:
        """Return the model's timeline. Raises as :meth:`LiveVersions.read`."""
        return self._versions.read(self._model)

    def read_orders(self) -> Orders:
        """Return what is to be prepared, and what to run for nobody. Raises as :meth:`LiveWorkers.read_orders`."""
        return self._workers.read_orders(self._model)

    def report(self, report: WorkerReport) -> None:
        """Say how this worker is. Raises UnavailableError."""
        self._workers.report_worker(self._model, report)

    def withdraw(self, worker: str) -> None:
        """Say that this worker leaves. Raises UnavailableError."""
        self._workers.withdraw_worker(self._model, worker)

    def listen(self) -> HintListener:
        """Subscribe to hints. Raises UnavailableError."""
        return self._versions.hints(self._model)
