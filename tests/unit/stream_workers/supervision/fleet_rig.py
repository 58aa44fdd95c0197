"""A fleet whose model processes are played: a test says when one has loaded, failed or died, and what time it is."""

from typing import Any

from stream_workers.batching.work import ServedVersion
from stream_workers.links.messages import (
    Attach,
    Candidate,
    Detach,
    Loaded,
    LoadFailed,
    Message,
    Refused,
    Residents,
    Serve,
)
from stream_workers.supervision.exit_reason import ExitReason
from stream_workers.supervision.fleet_options import FleetOptions
from stream_workers.supervision.load_limits import LoadLimits
from stream_workers.supervision.model_fleet import ModelFleet
from stream_workers.supervision.model_instance import InstanceState, Post

LOAD_SECONDS = 60.0
MEMORY_BYTES = 1000


class FakeInstance:
    """A model process without a process. It ends, when told to, in the rig's next turn."""

    def __init__(self, number: int, version: ServedVersion, started_at: float, *, is_shadow: bool = False) -> None:
        self.is_shadow = is_shadow
        self.number, self.version, self.started_at = number, version, started_at
        self.state = InstanceState.LOADING
        self.is_attached = False
        self.was_useful = False
        self.peak_bytes: int | None = 1
        self.return_code: int | None = None
        self.kill_code: str | None = None

    def kill(self, code: str | None) -> None:
        self.kill_code = code
        if code is None:
            self.state = InstanceState.ENDING
        self.return_code = -9

    def end(self, now: float) -> None:
        self.state = InstanceState.ENDING
        self.return_code = 0

    def press(self, now: float) -> None: ...

    def read_peak_bytes(self) -> int | None:
        return self.peak_bytes

    def explain(self, return_code: int) -> ExitReason:
        return ExitReason(self.kill_code or "model_crashed", f"ended with {return_code}")

    def attach(self, version: ServedVersion, post: Post) -> None:
        self.is_attached = True
        post(Attach(self.number, version, 2, 100), [])

    def discard(self) -> None: ...


class FleetRig:
    """A fleet, a member that releases what is not named any more, and a clock."""

    def __init__(
        self, *, instances: int = 1, pinned: bool = False, keep_warm: float = 600.0, restarts: int = 10
    ) -> None:
        options = FleetOptions("m", instances, LoadLimits(LOAD_SECONDS, MEMORY_BYTES), restarts, keep_warm, pinned)
        self.now = 0.0
        self.started: list[FakeInstance] = []
        self.posted: list[Message] = []
        self.busy: set[int] = set()
        """Instances that the member does not release yet."""
        self._with_member: set[int] = set()
        self._can_start = True
        self.fleet = ModelFleet(options, self._start, self._post)  # type: ignore[arg-type]
        self.fleet.meet_member()

    # -- what a test does ----------------------------------------------------------------------------------------------

    def declare(
        self,
        *wanted: str,
        epoch: int = 1,
        candidate: tuple[str, ...] | None = None,
        name: str = "c1",
        shadow: str | None = None,
    ) -> None:
        """Want these versions, the main one first."""
        asked = Candidate(name, list(candidate)) if candidate is not None else None
        self.fleet.declare(Serve([ServedVersion("m", name, epoch) for name in wanted], asked, shadow), self.now)
        self.turn()

    def turn(self, seconds: float = 0.0) -> None:
        """Let time pass, what was told to end end, and the member release what it can."""
        self.now += seconds
        self.fleet.tick(self.now)
        while True:
            for number in sorted(self._with_member - self._resident_numbers() - self.busy):
                self._with_member.discard(number)
                self.fleet.release(number, self.now)
            ended = [one for one in self.fleet.instances.values() if one.return_code is not None]  # type: ignore[attr-defined]
            for instance in ended:
                self._with_member.discard(instance.number)
                self.fleet.on_exit(instance, instance.return_code, self.now)  # type: ignore[attr-defined]
            if not ended:
                break
        self.fleet.tick(self.now)

    def finish_loads(self, name: str | None = None) -> None:
        """All that load, or those of one version, have loaded."""
        for instance in self.loading(name):
            self.fleet.on_message(instance, Loaded(1.0, 1), self.now)  # type: ignore[arg-type]
        self.turn()

    def fail_load(self, name: str, *, permanent: bool = False) -> None:
        """One process cannot load."""
        instance = self.loading(name)[0]
        self.fleet.on_message(instance, LoadFailed("RuntimeError", "boom", permanent), self.now)  # type: ignore[arg-type]
        self.turn()

    def kill(self, name: str) -> None:
        """Someone kills a process of this version."""
        next(one for one in self.alive(name)).return_code = -11
        self.turn()

    def lend_room(self, *, enough: bool) -> None:
        """Whether the system has room for another process."""
        self._can_start = enough

    # -- what a test sees ----------------------------------------------------------------------------------------------

    def alive(self, name: str | None = None) -> list[FakeInstance]:
        """Processes that nobody has told to end."""
        found: list[Any] = list(self.fleet.instances.values())
        return [one for one in found if one.state is not InstanceState.ENDING and name in (None, one.version.version)]

    def loading(self, name: str | None = None) -> list[FakeInstance]:
        return [one for one in self.alive(name) if one.state is InstanceState.LOADING]

    def versions(self) -> list[str]:
        """The versions that have processes, in the order in which they began to load."""
        return list(dict.fromkeys(one.version.version for one in self.alive()))

    def count_starts(self, name: str) -> int:
        return sum(one.version.version == name for one in self.started)

    @property
    def residents(self) -> Residents:
        """What the member was told last."""
        return [message for message in self.posted if isinstance(message, Residents)][-1]

    @property
    def active(self) -> tuple[str, int] | None:
        active = self.residents.active
        return (active.version, active.epoch) if active is not None else None

    @property
    def refused(self) -> list[tuple[str, str]]:
        return [(one.version.version, one.reason) for one in self.posted if isinstance(one, Refused)]

    # -- the other ends ------------------------------------------------------------------------------------------------

    def _start(self, version: ServedVersion, now: float, *, is_shadow: bool = False) -> FakeInstance:
        if not self._can_start:
            raise OSError(11, "no room for a process")
        self.started.append(FakeInstance(len(self.started) + 1, version, now, is_shadow=is_shadow))
        return self.started[-1]

    def _post(self, message: Message, descriptors: object) -> None:
        self.posted.append(message)
        if isinstance(message, Attach):
            self._with_member.add(message.instance)
        elif isinstance(message, Detach):
            self._with_member.discard(message.instance)

    def _resident_numbers(self) -> set[int]:
        if not any(isinstance(message, Residents) for message in self.posted):
            return set()
        return {number for group in self.residents.sets for number in group.instances}
