"""Real model processes with the supervisor's and the member's side of them in the test's own process."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from schemas.configuration import dump_settings
from schemas.settings import Settings
from stream_workers.batching.work import Batch, ReleaseReason, RunMode, ServedVersion
from stream_workers.links.control_channel import ControlChannel, make_pair
from stream_workers.links.messages import (
    Candidate,
    FromMember,
    Hello,
    KillInstance,
    Message,
    Release,
    Serve,
    ToMember,
    from_member_decoder,
    to_member_decoder,
)
from stream_workers.pipeline.contract import BatchOutcome
from stream_workers.pipeline.replica_pool import ReplicaPool
from stream_workers.supervision.fleet_options import FleetOptions
from stream_workers.supervision.launcher import Launcher
from stream_workers.supervision.member_link import MemberLink
from stream_workers.supervision.model_fleet import ModelFleet
from tests.fakes.json_records import item
from tests.models.store_builder import CLASSES

CHECKOUT = Path(__file__).parents[2]


def settings_for(tmp_path: Path, **groups: dict[str, Any]) -> Settings:
    """Settings with a store, cache and state of their own, one instance, and the test models registered."""
    model = {"name": "test", "classes": CLASSES, "instances": 1, **groups.pop("model", {})}
    worker = {
        "warm_spare": False,
        "state_dir": tmp_path / "state",
        "group": "test-group",
        "name": "w",
        **groups.pop("worker", {}),
    }
    store = {"root": tmp_path / "store", "cache_dir": tmp_path / "cache"}
    return Settings(model=model, worker=worker, store=store, **groups)  # type: ignore[arg-type]


def child_environment() -> dict[str, str]:
    """What children inherit: this checkout first on their path."""
    return {**os.environ, "PYTHONPATH": str(CHECKOUT)}


class LocalFleet:
    """A fleet and a pool, and the pump that keeps both going."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.fleet = ModelFleet(
            replace(FleetOptions.of(settings), pinned=False),
            Launcher(settings, child_environment()).start_model,
            self._post,
        )
        self._channel: ControlChannel[FromMember] | None = None
        self._serial = 0
        self.connect()

    def connect(self) -> None:
        """Begin a new member, as after the death of the one before."""
        if self._channel is not None:
            self._leave()
            self.fleet.lose_member(time.monotonic())
        ours, theirs = make_pair()
        self._channel = ControlChannel(ours, from_member_decoder)
        channel: ControlChannel[ToMember] = ControlChannel(theirs, to_member_decoder)
        self.link = MemberLink(channel, Hello("w-0", 0, dump_settings(self.settings)))
        self.pool = ReplicaPool(self.link, self.settings, time.monotonic)
        self.fleet.meet_member()

    def serve(self, version: str = "v1", epoch: int = 1, candidate: Candidate | None = None) -> None:
        """Ask for a version, as a member does."""
        self.link.serve([ServedVersion("test", version, epoch)], candidate)

    def pump(self, seconds: float = 0.02) -> list[BatchOutcome]:
        """One turn of the supervisor and of the member."""
        now = time.monotonic()
        if self._channel is not None:
            for message, _ in self._channel.receive():
                self._take(message, now)
        for instance in list(self.fleet.instances.values()):
            code = instance.child.poll()
            for loaded in instance.child.receive():
                self.fleet.on_message(instance, loaded, now)
            if code is not None:
                self.fleet.on_exit(instance, code, now)
        self.fleet.tick(now)
        return self.pool.collect(seconds, time.monotonic())

    def pump_until(self, condition: Callable[[], bool], seconds: float = 30.0) -> list[BatchOutcome]:
        """Pump until the condition holds; returns what ended meanwhile. Fails after `seconds`."""
        give_up_at = time.monotonic() + seconds
        outcomes: list[BatchOutcome] = []
        while not condition():
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"not within {seconds} s; failure: {self.fleet.failure}")
            outcomes += self.pump()
        return outcomes

    def await_ready(self) -> None:
        """Wait until a batch can be submitted."""
        self.pump_until(lambda: self.pool.count_free_slots() > 0)

    def submit(
        self, payloads: Sequence[Any], mode: RunMode = RunMode.TOGETHER, version: ServedVersion | None = None
    ) -> Batch:
        """Submit a batch of these payloads, by default to the active version."""
        self._serial += 1
        items = [item(number, payload) for number, payload in enumerate(payloads)]
        met = version or self.pool.active_version()
        assert met is not None
        batch = Batch(self._serial, items, ReleaseReason.FULL, met, mode)
        self.pool.submit(batch, time.monotonic())
        return batch

    def run(self, payloads: Sequence[Any], mode: RunMode = RunMode.TOGETHER, seconds: float = 30.0) -> BatchOutcome:
        """Run one batch and return what became of it."""
        self.await_ready()
        self.submit(payloads, mode)
        outcomes: list[BatchOutcome] = []
        give_up_at = time.monotonic() + seconds
        while not outcomes:
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"no outcome within {seconds} s")
            outcomes += self.pump()
        return outcomes[0]

    def close(self) -> None:
        """End every process."""
        now = time.monotonic()
        self.fleet.kill_all()
        for instance in list(self.fleet.instances.values()):
            self.fleet.on_exit(instance, instance.child.reap(), now)
        self._leave()

    def _leave(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self.pool.close()
            self.link.close()

    def _post(self, message: Message, descriptors: Sequence[int]) -> None:
        if self._channel is None:
            for descriptor in descriptors:
                os.close(descriptor)
        else:
            self._channel.send(message, descriptors)

    def _take(self, message: FromMember, now: float) -> None:
        if isinstance(message, Serve):
            self.fleet.declare(message, now)
        elif isinstance(message, Release):
            self.fleet.release(message.instance, now)
        elif isinstance(message, KillInstance):
            self.fleet.kill(message.instance, message.code)
