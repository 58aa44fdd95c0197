"""Runs copies of answered batches on a shadow version. A thin driver on the worker's main thread.

Nothing here may cost an answer anything: a copy is made when its batch is answered, runs while the active version has
a process with nothing to do, and is dropped and counted when there is no room. Without a shadow, one look a batch and
one a turn is all that is done.
"""

from collections.abc import Callable
from typing import Protocol

import structlog

from model_store.shadow import Shadow
from model_store.worker_reports import ShadowReport, clean_text
from stream_workers.batching.work import ServedVersion
from stream_workers.metrics import ShadowMetrics
from stream_workers.pipeline.contract import BatchAnswered, BatchLost, BatchOutcome, ShadowPool
from stream_workers.shadowing.copies import Drop, WaitingCopies, choose_items

_CLOSE_SECONDS = 0.2

_log = structlog.get_logger("shadow")


class ShadowSource(Protocol):
    """Where the decision comes from; see :class:`stream_workers.version_following.VersionFollower`."""

    @property
    def shadow(self) -> Shadow | None:
        """What is to be run for nobody now."""


class Courier(Protocol):
    """See :class:`stream_workers.shadowing.courier.ShadowCourier`."""

    trouble: str
    has_no_topic: bool

    def start(self) -> None:
        """Connect, on a thread."""

    def offer(self, outcome: BatchOutcome) -> bool:
        """Have a copy compared; False when it cannot be."""

    def close(self, wait_seconds: float = 0.0) -> None:
        """End."""


class ShadowDesk:
    """See the module. Everything that goes wrong in here switches the shadow off in this worker, and no more."""

    def __init__(
        self,
        source: ShadowSource,
        pool: ShadowPool,
        make_courier: Callable[[], Courier],
        metrics: ShadowMetrics,
        max_bytes: int,
    ) -> None:
        self._source = source
        self._pool = pool
        self._make_courier = make_courier
        self._metrics = metrics
        self._waiting = WaitingCopies(max_bytes)
        self._seen: Shadow | None = None
        self._shadow: Shadow | None = None
        self._courier: Courier | None = None
        self._fault = ""

    # -- the worker's verbs --------------------------------------------------------------------------------------------

    def copy(self, answered: BatchAnswered) -> None:
        """A batch was answered: copy what the shadow's share takes of it."""
        if self._shadow is not None:
            try:
                self._copy(self._shadow, answered)
            except Exception as error:  # noqa: BLE001 - what goes wrong with a copy must not cost the answer
                self._break_off(error)

    def turn(self, now: float) -> None:
        """Follow the decision, take in what has come back, and start what there is room for."""
        if self._seen is None and self._source.shadow is None:
            return
        try:
            self._follow()
            self._take_back()
            self._start(now)
        except Exception as error:  # noqa: BLE001 - as above
            self._break_off(error)

    def close(self) -> None:
        """Have what is compared already written, for a moment: nothing waits for it."""
        if self._courier is not None:
            self._courier.close(_CLOSE_SECONDS)

    # -- what others must know -----------------------------------------------------------------------------------------

    @property
    def wanted(self) -> str | None:
        """The version to hold loaded; None when there is none, or nothing could be done with its answers."""
        shadow = self._source.shadow
        has_no_topic = self._courier is not None and self._courier.has_no_topic
        return None if shadow is None or self._fault or has_no_topic else shadow.version

    def report(self) -> ShadowReport | None:
        """Say how far the shadow is; None without one."""
        shadow, residency = self._source.shadow, self._pool.residency()
        if shadow is None:
            return None
        trouble = self._courier.trouble if self._courier is not None else ""
        is_other = residency.shadow not in ("", shadow.version)
        state = self._fault or trouble or ("" if is_other else residency.shadow_state) or "loading"
        return ShadowReport(shadow.version, clean_text(state))

    # -- small parts ---------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        seen = self._source.shadow
        if seen is self._seen:
            return
        self._seen = seen
        if seen == self._shadow:
            return
        before, self._shadow = self._shadow, seen
        if before is not None and seen is not None and before.version == seen.version:
            return
        self._drop(Drop.LOST, self._waiting.clear())
        if self._courier is not None:
            self._courier.close()
        self._courier = self._make_courier() if seen is not None else None
        if self._courier is not None:
            self._courier.start()
        self._fault = ""
        _log.info("shadow", version=seen.version if seen is not None else None)

    def _copy(self, shadow: Shadow, answered: BatchAnswered) -> None:
        active = answered.version
        if active.version == shadow.version or self._courier is None:
            return
        items = choose_items(shadow, answered.batch.items)
        if not items:
            return
        if not self._pool.is_shadow_ready(shadow.version):
            self._drop(Drop.NOT_LOADED, len(items))
        elif not self._waiting.add(items, answered.batch, ServedVersion(active.model, shadow.version, active.epoch)):
            self._drop(Drop.BUSY, len(items))

    def _take_back(self) -> None:
        for outcome in self._pool.take_copies():
            version = outcome.version.version
            is_lost = isinstance(outcome, BatchLost) and not (outcome.suspect and self._pool.holds_shadow(version))
            if is_lost or self._shadow is None or self._shadow.version != version:
                self._drop(Drop.LOST, len(outcome.batch.items))
            elif self._courier is None or not self._courier.offer(outcome):
                self._drop(Drop.UNSENT, len(outcome.batch.items))

    def _start(self, now: float) -> None:
        shadow, waiting = self._shadow, self._waiting
        if shadow is None or not waiting:
            return
        if not self._pool.is_shadow_ready(shadow.version):
            self._drop(Drop.LOST, waiting.clear())
        while waiting and self._pool.has_idle_instance() and self._pool.count_shadow_slots(shadow.version):
            self._pool.submit_copy(waiting.take(), now)

    def _drop(self, reason: Drop, records: int) -> None:
        if records:
            self._metrics.dropped.labels(reason).inc(records)

    def _break_off(self, error: Exception) -> None:
        _log.exception("the shadow is switched off in this worker")
        self._fault = f"switched off by {type(error).__name__}, see this worker's log"
        self._shadow = None
        self._waiting.clear()


class NoShadows:
    """While the version is fixed by the settings."""

    wanted: str | None = None

    def copy(self, answered: BatchAnswered) -> None:
        """Do nothing."""

    def turn(self, now: float) -> None:
        """Do nothing."""

    def report(self) -> ShadowReport | None:
        """Return None: there is none."""
        return None

    def close(self) -> None:
        """Do nothing."""
