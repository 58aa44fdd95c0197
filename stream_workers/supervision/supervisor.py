"""The parent of a worker: it leases slots, keeps their processes alive, tells how they are, and ends them in order.

Light on purpose: no torch, no Kafka, no Redis. What it does not load cannot make it fail.
"""

import contextlib
import select
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from types import FrameType

import structlog

from schemas.settings import Settings
from stream_workers.local_folders import state_folder
from stream_workers.supervision.health_server import HealthBoard, start_health_server
from stream_workers.supervision.launcher import MEMBER_MODULE, Launcher
from stream_workers.supervision.slot import Slot
from stream_workers.supervision.slot_lease import SlotLease, lease_slots

TICK_SECONDS = 0.1
DRAIN_GRACE_SECONDS = 2.0
SPARE_AFTER_SECONDS = 1.0
SECOND_SIGNAL_SECONDS = 0.3
"""A signal that comes sooner repeats the first: timeout(1), among others, signals both the process and its group."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)

_log = structlog.get_logger("supervision")


def supervise(settings: Settings, environment: Mapping[str, str], member_module: str = MEMBER_MODULE) -> int:
    """Run a worker until it is told to stop or has to give up; returns its exit code. Main thread only.

    SIGTERM and SIGINT let the members drain; a second one ends everything at once. Raises ConfigurationError when no
    slots can be leased.
    """
    with contextlib.ExitStack() as stack:
        leases = lease_slots(state_folder(settings), settings.worker.members)
        for lease in leases:
            stack.enter_context(lease)
        wakeup = stack.enter_context(_signals())
        board = HealthBoard()
        start_health_server(settings.health, board)
        supervisor = Supervisor(settings, Launcher(settings, environment, member_module), leases, wakeup, board)
        stack.callback(supervisor.kill_all)
        return supervisor.run()


class Supervisor:
    """The loop over all slots. `wakeup` is readable when a signal has come; its bytes are the signals' numbers."""

    def __init__(
        self, settings: Settings, launcher: Launcher, leases: list[SlotLease], wakeup: socket.socket, board: HealthBoard
    ) -> None:
        now = time.monotonic()
        name = settings.worker.name
        self._slots = [Slot(f"{name}-{lease.number}", lease.number, settings, launcher, now) for lease in leases]
        self._settings = settings
        self._launcher = launcher
        self._wakeup = wakeup
        self._board = board
        self._stop_at: float | None = None
        self._asked_at = float("-inf")
        self._exit_code = 0
        self._well_since = now

    def run(self) -> int:
        """Serve until there is a reason to end; returns the exit code. `kill_all` must follow."""
        for slot in self._slots:
            slot.start(time.monotonic())
        while True:
            self._wait()
            code = self._step(time.monotonic())
            if code is not None:
                return code

    def kill_all(self) -> None:
        """End every process that is left and wait for it."""
        self._launcher.end_spare()
        for slot in self._slots:
            slot.kill(time.monotonic())

    def _step(self, now: float) -> int | None:
        """One turn; returns the exit code when it was the last."""
        stop = self._take_signals(now)
        for slot in self._slots:
            slot.receive(now)
            slot.reap(now)
            slot.tick(now)
        self._keep_spare(now)
        self._board.update([slot.health() for slot in self._slots])
        return stop if stop is not None else self._find_end(now)

    def _keep_spare(self, now: float) -> None:
        """Start the spare only when every slot is well: before that the cores have better things to do."""
        healths = [slot.health() for slot in self._slots]
        if not all(health.status is not None and health.status.ready for health in healths):
            self._well_since = now
        elif (
            self._settings.worker.warm_spare and self._stop_at is None and now - self._well_since > SPARE_AFTER_SECONDS
        ):
            self._launcher.keep_spare()

    def _find_end(self, now: float) -> int | None:
        if self._stop_at is None:
            failure = next((slot.failure for slot in self._slots if slot.failure is not None), None)
            if failure is None:
                return None
            _log.error("the worker gives up", reason=failure.reason, exit_code=failure.exit_code)
            self._exit_code = failure.exit_code
            self._stop_at = self._drain(now)
        if all(slot.member is None for slot in self._slots):
            _log.info("stopped")
            return self._exit_code or max(slot.drain_code for slot in self._slots)
        if now >= self._stop_at:
            _log.warning("members did not finish in time and are killed")
            return self._exit_code or 1
        return None

    def _drain(self, now: float) -> float:
        """Let the members finish; returns until when."""
        limit = self._settings.worker.drain_seconds
        _log.info("draining", limit_seconds=limit)
        for slot in self._slots:
            slot.drain()
        return now + limit + DRAIN_GRACE_SECONDS

    def _take_signals(self, now: float) -> int | None:
        with contextlib.suppress(BlockingIOError):
            for number in self._wakeup.recv(4096):
                if number == signal.SIGCHLD:
                    continue
                if self._stop_at is None:
                    self._asked_at, self._stop_at = now, self._drain(now)
                elif now - self._asked_at >= SECOND_SIGNAL_SECONDS:
                    _log.warning("told to stop again: ending at once")
                    return 1
        return None

    def _wait(self) -> None:
        """Sleep until a signal or a message comes, a child's end included, or the next tick."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        for slot in self._slots:
            for channel in slot.channels():
                poll.register(channel, select.POLLIN | (select.POLLOUT if channel.has_unsent else 0))
        poll.poll(TICK_SECONDS * 1000)


@contextlib.contextmanager
def _signals() -> Iterator[socket.socket]:
    """Turn signals into bytes on a socket, and back to what they were afterwards."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    before = {number: signal.signal(number, _ignore) for number in _SIGNALS}
    old_descriptor = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    try:
        yield ours
    finally:
        signal.set_wakeup_fd(old_descriptor)
        for number, handler in before.items():
            signal.signal(number, handler)
        ours.close()
        theirs.close()


def _ignore(number: int, frame: FrameType | None) -> None:
    """The wakeup descriptor has told the loop."""
