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
from functools import partial
from types import FrameType

import structlog

from model_store.timeline import Timeline
from schemas.errors import ConfigurationError, FencedError, ModelStoreError, StartUpTimeoutError, UnavailableError
from schemas.settings import Settings
from stream_workers.assembly import build_parts, build_worker
from stream_workers.last_known_timeline import LastKnownTimeline
from stream_workers.local_folders import state_folder
from stream_workers.logs import set_up_logs
from stream_workers.pipeline.replica_pool import ReplicaPool
from stream_workers.reporting import Reporter
from stream_workers.start_up import check_outside
from stream_workers.supervision.member_link import MemberLink
from stream_workers.version_following import ControlDoor, VersionFollower

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


def serve(link: MemberLink, should_stop: StopRequest) -> None:
    """From the first look at the outside to the last commit. Raises whatever ends a member early."""
    settings = link.settings
    follower = _follow(link) if settings.model.version is None else None
    reporter = Reporter(link, follower)
    timeline = Timeline()
    if follower is not None:
        # One that replaces another need not wait: the model processes serve, and it takes nothing in before its look.
        first = follower.begin(should_stop, reporter.waiting, wait=link.serving is None)
        if first is None:
            return
        timeline = first
        follower.start()
    reporter.want(timeline, [], time.time(), time.monotonic())
    facts = check_outside(settings, on_wait=reporter.waiting)
    pool = ReplicaPool(link, settings, time.monotonic)
    parts = build_parts(settings, link.slot, facts, pool, reporter, follower)
    # What lives now lives on: the collector need not look at it again, and the hot path makes little garbage.
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    should_stop.has_work = True
    build_worker(parts).run(should_stop)
    parts.shadow.close()
    if follower is not None:
        follower.stop()


def _follow(link: MemberLink) -> VersionFollower:
    path = state_folder(link.settings) / f"{link.settings.model.name}-{link.slot_number}.timeline"
    return VersionFollower(link.settings, partial(_connect, link.settings), LastKnownTimeline(path))


def _connect(settings: Settings) -> ControlDoor:
    if not settings.redis.url.get_secret_value():
        raise UnavailableError("redis.url is not set")
    # The Redis client takes a while to import: not on the way of a member that replaces a killed one.
    from stream_workers.control_door import RedisControl  # noqa: PLC0415 - see above

    return RedisControl(settings.redis, settings.model.name)


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
