"""What becomes of a version that cannot be loaded."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from stream_workers.batching.work import ServedVersion
from stream_workers.links.messages import LoadFailed, Refused
from stream_workers.supervision.model_fleet import FAILED_LOADS, FleetOptions, ModelFleet
from stream_workers.supervision.model_instance import InstanceState

VERSION = ServedVersion("m", "v1", 1)


@dataclass
class FakeInstance:
    number: int
    version: ServedVersion
    started_at: float
    state: InstanceState = InstanceState.LOADING
    was_useful: bool = False

    def kill(self, code: str | None) -> None:
        self.state = InstanceState.ENDING

    def press(self, now: float) -> None: ...


@dataclass
class Rig:
    pinned: bool
    started: list[FakeInstance] = field(default_factory=list)
    posted: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        options = FleetOptions(instances=1, load_timeout_seconds=60.0, max_restarts=10, pinned=self.pinned)
        self.fleet = ModelFleet(options, self.start, lambda message, _: self.posted.append(message))

    def start(self, version: ServedVersion, now: float) -> Any:
        self.started.append(FakeInstance(len(self.started), version, now))
        return self.started[-1]


@pytest.mark.parametrize("pinned", [True, False])
def test_a_first_version_whose_slow_load_fails_every_time_is_given_up(pinned: bool) -> None:
    """Each load takes so long that the restart policy forgets the one before."""
    rig = Rig(pinned)
    rig.fleet.request(VERSION, 0.0)
    for attempt in range(1, 2 * FAILED_LOADS):
        now = attempt * 50.0
        rig.fleet.tick(now)
        if rig.started[-1].state is InstanceState.LOADING:
            rig.fleet.on_message(rig.started[-1], LoadFailed("RuntimeError", "boom", permanent=False), now)  # type: ignore[arg-type]
    assert len(rig.started) == FAILED_LOADS
    assert rig.posted == [Refused(VERSION, "RuntimeError: boom")]
    assert rig.fleet.failure == ("RuntimeError: boom" if pinned else None)
    assert not rig.fleet.failure_is_permanent
