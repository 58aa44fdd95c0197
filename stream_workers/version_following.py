"""Which version this member should serve: fixed by the settings, or the active one in Redis, read by its own thread.

Redis may be down at any time: at start the last known timeline from the state folder serves, later the one in memory.
Nothing on the path of a record waits for it.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import structlog

from model_store.pointer_watch import PointerWatch
from model_store.timeline import Timeline
from model_store.timeline_codec import decode_timeline, encode_timeline
from schemas.errors import ModelStoreError, PipelineError, StartUpTimeoutError, UnavailableError
from schemas.settings import Settings
from stream_workers.batching.work import ServedVersion
from stream_workers.start_up import WaitLog

_log = structlog.get_logger("versions")


class PointerDoor(Protocol):
    """See :class:`model_store.live_versions.LiveVersions`."""

    def read(self, model: str) -> Timeline | None:
        """Return the model's timeline."""


class LastKnownTimeline:
    """The timeline that was last seen, in a file of the state folder, replaced whole."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> Timeline | None:
        """Return it, or None when there is none or it cannot be read."""
        try:
            return decode_timeline(self._path.read_bytes())
        except (OSError, PipelineError):
            return None

    def save(self, timeline: Timeline) -> None:
        """Replace it. A full disk is logged and no more: the file only helps a start without Redis."""
        written = self._path.with_name(f".{self._path.name}.part")
        try:
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_bytes(encode_timeline(timeline))
            written.replace(self._path)
        except OSError as error:
            _log.warning("last known version not saved", reason=error.strerror)


class VersionFollower:
    """Follows the active version. `await_first` once, then `start`, then `take_change` from the main loop."""

    def __init__(
        self,
        settings: Settings,
        connect: Callable[[], PointerDoor] | None,
        last_known: LastKnownTimeline,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._model = settings.model.name
        self._connect = connect
        self._live: PointerDoor | None = None
        self._last_known = last_known
        self._clock = clock
        self._pause = pause
        self._watch = PointerWatch(clock())
        self._lock = threading.Lock()
        self._change: ServedVersion | None = None

    def await_first(self, should_stop: Callable[[], bool], on_wait: Callable[[str], None]) -> ServedVersion | None:
        """Return the version to begin with; None when told to stop. Raises StartUpTimeoutError.

        Without an answer from Redis the last known version serves, if there is one; else `on_wait` is told per try.
        """
        pinned = self._settings.model.version
        if pinned is not None:
            return ServedVersion(self._model, pinned, 0)
        give_up_at = self._clock() + self._settings.worker.start_timeout_seconds
        while not should_stop():
            reason = self._look()
            if self._watch.known is None and reason is not None:
                self._adopt(self._last_known.load())
            if self._watch.known is not None:
                return self._newest(self._watch.known)
            if self._clock() >= give_up_at:
                raise StartUpTimeoutError(reason or self._nothing_active())
            on_wait(reason or self._nothing_active())
            self._pause(self._settings.redis.poll_seconds)
        return None

    def start(self) -> None:
        """Begin to poll, unless the version is fixed."""
        if self._settings.model.version is None and self._connect is not None:
            threading.Thread(target=self._poll_for_ever, name="versions", daemon=True).start()

    def take_change(self) -> ServedVersion | None:
        """Return the version to change to, once for each change."""
        with self._lock:
            change, self._change = self._change, None
            return change

    @property
    def epoch(self) -> int:
        """Epoch of the newest decision that was seen; 0 while the version is fixed."""
        return self._watch.known.epoch if self._watch.known is not None else 0

    def stale_seconds(self) -> float:
        """Seconds since the active version was last confirmed; 0 while the version is fixed."""
        return 0.0 if self._settings.model.version is not None else self._watch.stale_seconds(self._clock())

    def _nothing_active(self) -> str:
        return (
            f"model {self._model}: no version is active; `headrace models activate {self._model} VERSION` makes one so,"
            " or set model.version"
        )

    def _look(self) -> str | None:
        """Read the pointer once; returns why that did not work, or None."""
        if self._connect is None:
            return "redis.url is not set"
        if self._live is None:
            self._live = self._connect()
        try:
            moved = self._watch.observe(self._live.read(self._model), self._clock())
        except UnavailableError as error:
            self._watch.observe_unavailable()
            return str(error)
        except ModelStoreError as error:
            self._watch.observe_invalid()
            return str(error)
        if moved is not None:
            self._last_known.save(moved)
        return None

    def _adopt(self, timeline: Timeline | None) -> None:
        if timeline is not None and timeline.entries:
            self._watch = PointerWatch(self._clock(), timeline)
            _log.warning("serving the last known version", model=self._model, epoch=timeline.epoch)

    def _newest(self, timeline: Timeline) -> ServedVersion:
        entry = timeline.entries[-1]
        return ServedVersion(self._model, entry.heaviest, entry.epoch)

    def _poll_for_ever(self) -> None:
        epoch = self._watch.known.epoch if self._watch.known else 0
        trouble = WaitLog(self._clock, "active version not confirmed, serving the one that is known")
        while True:
            self._pause(self._settings.redis.poll_seconds)
            try:
                reason = self._look()
            except Exception as error:  # noqa: BLE001 - without this thread the member would never see another version
                reason = f"{type(error).__name__}: {error}"
            if reason is None:
                trouble.over()
            else:
                trouble(reason)
            known = self._watch.known
            if known is not None and known.epoch != epoch:
                epoch = known.epoch
                with self._lock:
                    self._change = self._newest(known)
