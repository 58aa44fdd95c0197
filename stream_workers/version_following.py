"""The member's line to the control plane, held by a thread of its own: decisions in, reports out.

Redis may be down at any time: at start the last known timeline from the state folder serves, later the one in memory.
Nothing on the path of a record waits for it. A published hint makes a look come sooner; the regular look decides.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

import structlog

from model_store.pointer_watch import PointerCounts, PointerWatch
from model_store.shadow import Shadow
from model_store.timeline import CALL_OFF_MARGIN_MS, SwitchMode, Timeline
from model_store.worker_reports import REPORT_EVERY_SECONDS, Candidate, Orders, WorkerReport
from schemas.errors import ModelStoreError, PipelineError, StartUpTimeoutError, UnavailableError
from schemas.settings import Settings
from stream_workers.last_known_timeline import LastKnownTimeline
from stream_workers.record_versions import Attempt
from stream_workers.start_up import WaitLog

SLICE_SECONDS = 0.1
"""How long a change waits at most until it is reported."""
_RETRY_SECONDS = 0.25
_STOP_SECONDS = 1.0
_INSIDE_MARGIN_MS = 50
"""How long after the last moment to call a switch off the look comes that makes sure of it."""

_log = structlog.get_logger("versions")


class Hints(Protocol):
    """See :class:`model_store.live_versions.HintListener`."""

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for a hint."""

    def close(self) -> None:
        """Stop listening."""


class ControlDoor(Protocol):
    """What the thread asks of Redis; see :mod:`stream_workers.control_door`."""

    def read_timeline(self) -> Timeline | None:
        """Return the model's timeline."""

    def read_orders(self) -> Orders:
        """Return what is to be prepared, and what to run for nobody."""

    def report(self, report: WorkerReport) -> None:
        """Say how this worker is."""

    def withdraw(self, worker: str) -> None:
        """Say that this worker leaves."""

    def listen(self) -> Hints:
        """Subscribe to hints."""


class VersionFollower:
    """Follows the decisions on one model. `begin` once, then `start`; the main loop calls the rest and never waits."""

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[], ControlDoor],
        last_known: LastKnownTimeline,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._model = settings.model.name
        self._connect = connect
        self._door: ControlDoor | None = None
        self._hints: Hints | None = None
        self._last_known = last_known
        self._clock = clock
        self._wall_clock = wall_clock
        self._pause = pause
        self._watch = PointerWatch(clock())
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._news: Timeline | None = None
        self._attempt = Attempt(0, float("-inf"))
        self._orders = Orders()
        self._report: WorkerReport | None = None
        self._reported: WorkerReport | None = None
        self._reported_at = self._looked_at = float("-inf")
        self._look_pause = settings.redis.poll_seconds

    # -- for the main thread -------------------------------------------------------------------------------------------

    def begin(self, should_stop: Callable[[], bool], on_wait: Callable[[str], None], *, wait: bool) -> Timeline | None:
        """Return the timeline to begin with; None when told to stop. Raises StartUpTimeoutError.

        Without `wait` the last known one does, unread, if there is one: nothing is taken in under it. Without an answer
        from Redis it serves too; else `on_wait` is told per try.
        """
        if not wait:
            self._adopt(self._last_known.load())
        give_up_at = self._clock() + self._settings.worker.start_timeout_seconds
        while not should_stop():
            known = self._watch.known
            if known is not None:
                return known
            reason = self._look()
            if reason is not None:
                self._adopt(self._last_known.load())
            if self._watch.known is not None:
                continue
            if self._clock() >= give_up_at:
                raise StartUpTimeoutError(reason or self._nothing_active())
            on_wait(reason or self._nothing_active())
            self._pause(self._settings.redis.poll_seconds)
        return None

    def start(self) -> None:
        """Begin to follow and to report."""
        self._thread = threading.Thread(target=self._follow, name="versions", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Say that this worker leaves, and follow no longer."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_STOP_SECONDS)

    @property
    def attempt(self) -> Attempt:
        """The last look that is over; what it found is there to be taken."""
        return self._attempt

    def take_timeline(self) -> Timeline | None:
        """Return the newest timeline, once for each change."""
        if self._news is None:
            return None
        with self._lock:
            news, self._news = self._news, None
            return news

    @property
    def has_looked(self) -> bool:
        """False until the thread has looked for both, decisions and what is to be prepared."""
        return self._looked_at > float("-inf")

    @property
    def candidate(self) -> Candidate | None:
        """What is to be prepared now."""
        return self._orders.candidate

    @property
    def shadow(self) -> Shadow | None:
        """What is to be run for nobody now."""
        return self._orders.shadow

    def note_report(self, report: WorkerReport) -> None:
        """Say how this member is: it is reported soon when it differs, and again every second."""
        self._report = report

    def stale_seconds(self) -> float:
        """Seconds since the active version was last confirmed."""
        return self._watch.stale_seconds(self._clock())

    @property
    def counts(self) -> PointerCounts:
        """How often a look did not move the pointer although something was not as before."""
        return self._watch.counts

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        trouble = WaitLog(self._clock, "active version not confirmed, serving the one that is known")
        while not self._stopping.is_set():
            try:
                reason = self._turn()
            except Exception as error:  # noqa: BLE001 - without this thread the member would never see another version
                reason = f"{type(error).__name__}: {error}"
            if reason is None:
                trouble.over()
            else:
                trouble(reason)
        if self._reported is not None:
            with suppress(PipelineError):
                self._open().withdraw(self._reported.worker)

    def _turn(self) -> str | None:
        """Wait a slice for a hint, look when it is time, report what is new; returns what went wrong."""
        hinted = self._wait()
        reason: str | None = None
        if hinted or self._clock() - self._looked_at >= self._look_pause or self._is_look_due():
            reason = self._look() or self._look_for_orders()
            self._looked_at = self._clock()
            self._look_pause = self._settings.redis.poll_seconds if reason is None else _RETRY_SECONDS
        # A Redis that does not answer costs each call its time: then only looks are tried.
        return reason if self._look_pause == _RETRY_SECONDS else self._tell()

    def _wait(self) -> bool:
        if self._hints is None:
            if self._looked_at == float("-inf"):
                return True
            self._pause(SLICE_SECONDS)
            if self._look_pause == _RETRY_SECONDS:
                return False
            try:
                self._hints = self._open().listen()
            except PipelineError:
                return False
            # Between the last look and the subscription something may have changed.
            return True
        try:
            return self._hints.wait(SLICE_SECONDS)
        except PipelineError:
            self._hints.close()
            self._hints = None
            return True

    def _is_look_due(self) -> bool:
        """Whether to make sure, between the last call-off and its instant, that an armed switch stands."""
        newest = self._watch.known.latest if self._watch.known is not None else None
        if newest is None or newest.mode is not SwitchMode.EXACT:
            return False
        sure_ms = newest.effective_from_ms - CALL_OFF_MARGIN_MS
        return self._attempt.began_ms < sure_ms and self._wall_clock() * 1000 >= sure_ms + _INSIDE_MARGIN_MS

    def _look(self) -> str | None:
        """Read the timeline once; returns why that did not work, or None. The attempt counts either way."""
        began_ms, began = int(self._wall_clock() * 1000), self._clock()
        is_answered = False
        try:
            reason = self._read()
            is_answered = reason is None
            return reason
        finally:
            # A process that was stopped before it took note of an answer must not take it for a new one.
            self._attempt = Attempt(began_ms, began if is_answered else self._clock())

    def _read(self) -> str | None:
        try:
            moved = self._watch.observe(self._open().read_timeline(), self._clock())
        except UnavailableError as error:
            self._watch.observe_unavailable()
            return str(error)
        except ModelStoreError as error:
            self._watch.observe_invalid()
            return str(error)
        if moved is not None:
            self._publish(moved)
            self._last_known.save(moved)
        return None

    def _look_for_orders(self) -> str | None:
        try:
            self._orders = self._open().read_orders()
        except UnavailableError as error:
            return str(error)
        return None

    def _tell(self) -> str | None:
        report, now = self._report, self._clock()
        if report is None or (report == self._reported and now - self._reported_at < REPORT_EVERY_SECONDS):
            return None
        self._reported, self._reported_at = report, now
        try:
            self._open().report(replace(report, at_ms=int(self._wall_clock() * 1000)))
        except PipelineError as error:
            return str(error)
        return None

    def _open(self) -> ControlDoor:
        if self._door is None:
            self._door = self._connect()
        return self._door

    def _publish(self, timeline: Timeline) -> None:
        with self._lock:
            self._news = timeline

    def _adopt(self, timeline: Timeline | None) -> None:
        if timeline is not None and timeline.entries:
            self._watch = PointerWatch(self._clock(), timeline)
            self._publish(timeline)
            _log.warning("beginning with the last known version", model=self._model, epoch=timeline.epoch)

    def _nothing_active(self) -> str:
        return (
            f"model {self._model}: no version is active; `headrace models activate {self._model} VERSION` makes one so,"
            " or set model.version"
        )
