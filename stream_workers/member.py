"""One group member as a process: `python -m stream_workers.member`, started by the supervisor and by nobody else.

It ends with `os._exit`, because a client that met a fatal error can hang in its own teardown; the supervisor then
restarts the slot. Exit codes: 0 stopped, 1 failed, 2 configuration, 3 fenced, 4 start-up limit reached.
"""

import enum
import gc
import os
import signal
import sys
import time
from collections.abc import Collection
from functools import partial
from pathlib import Path
from types import FrameType

import structlog

from schemas.errors import ConfigurationError, FencedError, ModelStoreError, StartUpTimeoutError
from schemas.settings import Settings
from stream_workers.assembly import build_parts, build_worker
from stream_workers.batching.work import ServedVersion
from stream_workers.local_folders import state_folder
from stream_workers.logs import set_up_logs
from stream_workers.parts import WorkerParts
from stream_workers.pipeline.replica_pool import ReplicaPool
from stream_workers.start_up import WaitLog, check_outside
from stream_workers.supervision.member_link import MemberLink
from stream_workers.version_following import LastKnownTimeline, PointerDoor, VersionFollower

_SWITCH_INTERVAL_SECONDS = 0.001
_GC_THRESHOLD = 100_000

_log = structlog.get_logger("member")


class Exit(enum.IntEnum):
    """How a member ends; the supervisor decides by it."""

    STOPPED = 0
    FAILED = 1
    CONFIGURATION = 2
    FENCED = 3
    START_UP_TIMEOUT = 4


class StopRequest:
    """Set by the first SIGTERM; the second ends the process at once. Ctrl-C is the supervisor's to handle."""

    def __init__(self) -> None:
        self._asked = False
        self.has_work = False
        """False until there is something to finish: before that a stop is at once, whatever is being waited for."""
        signal.signal(signal.SIGTERM, self._ask)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def __call__(self) -> bool:
        """True once asked."""
        return self._asked

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._asked:
            os._exit(Exit.FAILED)
        if not self.has_work:
            os._exit(Exit.STOPPED)
        self._asked = True


class Reporter:
    """Tells the supervisor how the member is, and asks it for another version when the pointer moves."""

    def __init__(self, link: MemberLink, follower: VersionFollower) -> None:
        self._link = link
        self._follower = follower
        self._wanted: ServedVersion | None = None
        self._log_wait = WaitLog()

    def waiting(self, reason: str) -> None:
        """Before the loop runs: not ready, and why."""
        self._log_wait(reason)
        self._link.send_status(ready=False, reasons=[reason])

    def want(self, version: ServedVersion, in_hand: Collection[ServedVersion] = ()) -> None:
        """Ask for this version, and for those that records in hand are pinned to."""
        self._wanted = version
        wanted = {version.version: version}
        for other in sorted(in_hand, key=lambda one: one.epoch, reverse=True):
            wanted.setdefault(other.version, other)
        self._link.serve(list(wanted.values()))

    def __call__(self, parts: WorkerParts, in_flight: int, in_hand: Collection[ServedVersion]) -> None:
        """From the loop: two times a second. `in_hand`: the versions that records in hand are pinned to."""
        waiting, oldest = len(parts.batcher), parts.batcher.oldest_polled_at()
        parts.metrics.batching.note_waiting(in_flight, waiting, oldest, parts.clock())
        change = self._follower.take_change()
        if change is not None:
            _log.info("version wanted", version=change.version, epoch=change.epoch)
        version = change or self._wanted
        if version is not None:
            self.want(version, in_hand)
        self._meet_refusals(parts)
        active = parts.pool.active_version()
        parts.metrics.member.note_version(active.version if active else "", active.epoch if active else 0)
        parts.metrics.member.pointer_stale.set(self._follower.stale_seconds())
        reasons = self._reasons(parts)
        self._link.send_status(ready=not reasons, reasons=reasons, metrics=parts.metrics.exposition())

    def _meet_refusals(self, parts: WorkerParts) -> None:
        refused, self._link.refused = self._link.refused, []
        for refusal in refused:
            parts.metrics.member.refused_versions.inc()
            if not parts.pool.has_instances():
                raise ConfigurationError(f"version {refusal.version.version} cannot be served: {refusal.reason}")

    @staticmethod
    def _reasons(parts: WorkerParts) -> list[str]:
        reasons = []
        if not parts.pool.has_instances():
            reasons.append("no model process is ready")
        if not parts.member.is_connected:
            reasons.append("no connection to a Kafka broker")
        if not parts.member.is_member:
            reasons.append("not a member of the consumer group")
        if parts.breaker.is_open:
            reasons.append("the model fails on every record")
        return reasons


def serve(link: MemberLink, should_stop: StopRequest) -> None:
    """From the first look at the outside to the last commit. Raises whatever ends a member early."""
    settings = link.settings
    connect = partial(_connect, settings) if settings.redis.url.get_secret_value() else None
    follower = VersionFollower(settings, connect, LastKnownTimeline(_timeline_file(settings, link)))
    reporter = Reporter(link, follower)
    version = link.serving or follower.await_first(should_stop, reporter.waiting)
    if version is None:
        return
    reporter.want(version)
    facts = check_outside(settings, on_wait=reporter.waiting)
    pool = ReplicaPool(link, settings, time.monotonic)
    parts = build_parts(settings, link.slot, facts, pool, reporter)
    follower.start()
    # What lives now lives on: the collector need not look at it again, and the hot path makes little garbage.
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    should_stop.has_work = True
    build_worker(parts).run(should_stop)


def _connect(settings: Settings) -> PointerDoor:
    # The Redis client takes most of a second to import: not on the way of a member that replaces a killed one.
    from model_store.live_versions import LiveVersions  # noqa: PLC0415 - see above

    return LiveVersions(settings.redis)


def _timeline_file(settings: Settings, link: MemberLink) -> Path:
    return state_folder(settings) / f"{settings.model.name}-{link.slot_number}.timeline"


def main() -> None:
    """Run until stopped; never returns."""
    link = MemberLink.from_environment()
    set_up_logs(link.settings.log)
    structlog.contextvars.bind_contextvars(slot=link.slot)
    ending = Exit.FAILED
    try:
        serve(link, StopRequest())
        ending = Exit.STOPPED
    except (ConfigurationError, ModelStoreError) as error:
        _log.error("cannot start", reason=str(error))
        ending = Exit.CONFIGURATION
    except StartUpTimeoutError as error:
        _log.error("gave up waiting", reason=str(error))
        ending = Exit.START_UP_TIMEOUT
    except FencedError as error:
        _log.error("replaced or refused by the cluster", reason=str(error))
        ending = Exit.FENCED
    except Exception:  # noqa: BLE001 - the top of a process: logged, and the supervisor restarts it
        _log.exception("member failed")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(ending)


if __name__ == "__main__":
    main()
