"""One slot of a worker: its group member, which is restarted whenever it ends, and its model processes."""

import enum
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from schemas.settings import Settings
from stream_workers.batching.work import ServedVersion
from stream_workers.links.control_channel import ControlChannel
from stream_workers.links.messages import FromMember, FromModel, Message, Release, Serve, Status
from stream_workers.supervision.carried_metrics import CarriedMetrics
from stream_workers.supervision.child_process import ChildProcess
from stream_workers.supervision.fleet_options import FleetOptions
from stream_workers.supervision.health import SlotHealth
from stream_workers.supervision.launcher import Launcher
from stream_workers.supervision.model_fleet import ModelFleet
from stream_workers.supervision.restart_policy import RestartPolicy

HUNG_SECONDS = 30.0
"""A member whose main loop says nothing for so long is killed: longer than any pause that it survives by itself."""

USEFUL_SECONDS = 1.0
"""A member that was ready for so long has done work: its end, however often it comes, is no crash loop."""

Channel = ControlChannel[FromMember] | ControlChannel[FromModel]

_log = structlog.get_logger("supervision")


class MemberExit(enum.IntEnum):
    """Exit codes of a member that mean something to its supervisor; any other is a crash."""

    CONFIGURATION = 2
    CLIENT_FAILED = 3
    """A fatal error of the Kafka client: a fresh process at once is the cure."""
    START_UP_TIMEOUT = 4


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the whole worker ends, and with which exit code."""

    exit_code: int
    reason: str


class Slot:
    """Driver of one slot. `start` once, then the events as they come, `tick` now and then."""

    def __init__(self, name: str, number: int, settings: Settings, launcher: Launcher, now: float) -> None:
        self.name = name
        self.member: ChildProcess[FromMember] | None = None
        self.failure: Failure | None = None
        self.policy = RestartPolicy(settings.worker.max_restarts)
        self.fleet = ModelFleet(FleetOptions.of(settings), launcher.start_model, self._post)
        self._number = number
        self._settings = settings
        self._launcher = launcher
        self._status: Status | None = None
        self._metrics = CarriedMetrics()
        self._heard_at = now
        self._ready_since: float | None = None
        self._start_at: float | None = None
        self._draining = False
        self.drain_code = 0
        """1 when the member did not end well in its drain."""

    def start(self, now: float) -> None:
        """Start the member, and beside it the model if the settings fix its version; else the member will say which."""
        model = self._settings.model
        if model.version is not None:
            self.fleet.declare(Serve([ServedVersion(model.name, model.version, 0)]), now)
        self._start_member(now)

    def receive(self, now: float) -> None:
        """Take in what the member and the model processes have sent."""
        if self.member is not None:
            for message in self.member.receive():
                self._on_member_message(message, now)
        for instance in list(self.fleet.instances.values()):
            for loaded in instance.child.receive():
                self.fleet.on_message(instance, loaded, now)

    def reap(self, now: float) -> None:
        """Take note of every child that has ended and start others in their places."""
        ended = [instance for instance in self.fleet.instances.values() if instance.child.poll() is not None]
        member = self.member if self.member is not None and self.member.poll() is not None else None
        self.receive(now)  # their last words, above all why a model cannot be loaded
        for instance in ended:
            self.fleet.on_exit(instance, instance.child.poll() or 0, now)
        if member is not None:
            self._on_member_exit(member, member.poll() or 0, now)
        if self.fleet.failure is not None and self.failure is None:
            self.failure = Failure(2 if self.fleet.failure_is_permanent else 1, self.fleet.failure)

    def tick(self, now: float) -> None:
        """Start what is due, kill what hangs, send what waits."""
        if self._start_at is not None and now >= self._start_at:
            self._start_member(now)
        if self.member is not None and now - self._heard_at > self._patience():
            _log.error("member hangs and is killed", slot=self.name, silent_seconds=round(now - self._heard_at, 1))
            self._heard_at = now
            self.member.kill()
        self.fleet.tick(now)
        for channel in self.channels():
            channel.flush()

    def drain(self) -> None:
        """Ask the member to finish; nothing is started any more."""
        self._draining = True
        self._start_at = None
        if self.member is not None:
            self.member.terminate()

    def channels(self) -> list[Channel]:
        """The open channels of all children."""
        models = [instance.child for instance in self.fleet.instances.values()]
        open_channels: list[Channel] = [child.channel for child in models if child.is_open]
        if self.member is not None and self.member.is_open:
            open_channels.append(self.member.channel)
        return open_channels

    def kill(self, now: float) -> None:
        """End everything of this slot at once and wait for it."""
        self._draining = True
        if self.member is not None:
            self.member.reap()
            self.member = None
        self.fleet.kill_all()
        for instance in list(self.fleet.instances.values()):
            self.fleet.on_exit(instance, instance.child.reap(), now)

    def health(self) -> SlotHealth:
        """Return what the health endpoint tells of this slot."""
        return SlotHealth(
            slot=self.name,
            status=self._status,
            heard_at=self._heard_at,
            models_loaded=self.fleet.count_loaded(),
            member_restarts=self.policy.restarts,
            model_restarts=self.fleet.restarts,
            metrics=self._metrics.text(),
        )

    # -- the member ----------------------------------------------------------------------------------------------------

    def _start_member(self, now: float) -> None:
        self._start_at, self._heard_at, self._status, self._ready_since = None, now, None, None
        try:
            self.member = self._launcher.start_member(self.name, self._number, self.fleet)
        except OSError as error:
            _log.error("member not started", slot=self.name, reason=error.strerror)
            self._start_at = now + 1.0
            return
        _log.info("member started", slot=self.name, pid=self.member.pid)
        self.fleet.meet_member()

    def _on_member_message(self, message: FromMember, now: float) -> None:
        if isinstance(message, Status):
            self._status, self._heard_at = message, now
            self._metrics.hear(message.metrics)
            if not message.ready:
                self._ready_since = None
            elif self._ready_since is None:
                self._ready_since = now
        elif isinstance(message, Serve):
            self.fleet.declare(message, now)
        elif isinstance(message, Release):
            self.fleet.release(message.instance, now)
        else:
            self.fleet.kill(message.instance, message.code)

    def _on_member_exit(self, member: ChildProcess[FromMember], code: int, now: float) -> None:
        member.close()
        self.member, self._status = None, None
        self._metrics.end()
        self.fleet.lose_member(now)
        if self._draining:
            # Ended by the signal itself: it had not begun yet.
            if code not in (0, -signal.SIGTERM):
                self.drain_code = 1
                _log.warning("member ended in its drain", slot=self.name, code=code)
            return
        if code in (MemberExit.CONFIGURATION, MemberExit.START_UP_TIMEOUT):
            self.failure = Failure(code, f"member {self.name} ended with exit code {code}")
            return
        was_useful = self._ready_since is not None and self._heard_at - self._ready_since >= USEFUL_SECONDS
        wait = self.policy.wait_before_restart(now, was_useful=was_useful)
        if wait is not None and code == MemberExit.CLIENT_FAILED:
            wait = 0.0
        _log.warning("member ended", slot=self.name, code=code, restart_in=wait)
        if wait is None:
            self.failure = Failure(1, f"member {self.name} ends again and again, last with exit code {code}")
        elif wait == 0:
            self._start_member(now)
        else:
            self._start_at = now + wait

    def _patience(self) -> float:
        """Before its first status a member may be waiting for Kafka, Redis and its topics."""
        if self._status is not None:
            return HUNG_SECONDS
        return HUNG_SECONDS + self._settings.worker.start_timeout_seconds

    def _post(self, message: Message, descriptors: Sequence[int]) -> None:
        if self.member is not None and self.member.is_open:
            self.member.channel.send(message, descriptors)
        else:
            for descriptor in descriptors:
                os.close(descriptor)
