from collections.abc import Sequence
from typing import Any

from schemas.settings import Settings
from stream_workers.batching.work import ServedVersion
from stream_workers.links.messages import FromMember, Message, Status
from stream_workers.supervision.launcher import FleetState
from stream_workers.supervision.slot import HUNG_SECONDS, USEFUL_SECONDS, Slot


class FakeChannel:
    has_unsent = False

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None: ...

    def flush(self) -> None: ...


class FakeChild:
    """A member that says what it is told to and ends when it is told to."""

    def __init__(self) -> None:
        self.pid, self.is_open = 1, True
        self.code: int | None = None
        self.words: list[FromMember] = []
        self.channel = FakeChannel()

    def poll(self) -> int | None:
        return self.code

    def receive(self) -> list[FromMember]:
        words, self.words = self.words, []
        return words

    def kill(self) -> None:
        self.code = -9

    def terminate(self) -> None:
        self.code = 0

    def close(self) -> None:
        self.is_open = False


class FakeLauncher:
    def __init__(self) -> None:
        self.members: list[FakeChild] = []
        self.served: list[ServedVersion | None] = []

    def start_member(self, slot: str, number: int, fleet: FleetState) -> FakeChild:
        self.served.append(fleet.serving_version)
        self.members.append(FakeChild())
        return self.members[-1]

    def start_model(self, version: ServedVersion, now: float) -> Any:
        raise OSError(11, "no room for a process")


def start(**worker: Any) -> tuple[Slot, FakeLauncher]:
    launcher = FakeLauncher()
    settings = Settings(worker={"max_restarts": 3, "start_timeout_seconds": 60, **worker})
    slot = Slot("w-0", 0, settings, launcher, 0.0)  # type: ignore[arg-type]
    slot.start(0.0)
    return slot, launcher


def turn(slot: Slot, now: float) -> None:
    slot.receive(now)
    slot.reap(now)
    slot.tick(now)


def test_a_member_that_falls_silent_is_killed_and_replaced() -> None:
    slot, launcher = start()
    launcher.members[0].words = [Status(True, [], "")]
    turn(slot, 1.0)
    turn(slot, 1.0 + HUNG_SECONDS)
    assert launcher.members[0].code is None
    turn(slot, 1.1 + HUNG_SECONDS)
    assert launcher.members[0].code == -9
    turn(slot, 1.2 + HUNG_SECONDS)
    assert len(launcher.members) == 2


def test_a_member_that_waits_for_the_outside_has_the_start_up_limit_besides() -> None:
    slot, launcher = start()
    turn(slot, HUNG_SECONDS + 59)
    assert launcher.members[0].code is None


def test_a_fatal_client_error_restarts_at_once_every_time() -> None:
    slot, launcher = start()
    for count in range(1, 4):
        launcher.members[-1].code = 3
        turn(slot, float(count))
        assert len(launcher.members) == count + 1
    launcher.members[-1].code = 3
    turn(slot, 4.0)
    assert slot.failure is not None
    assert slot.failure.exit_code == 1


def test_a_crash_waits_before_its_second_restart() -> None:
    slot, launcher = start()
    for _ in range(2):
        launcher.members[-1].code = 1
        turn(slot, 1.0)
    assert len(launcher.members) == 2
    turn(slot, 1.2)
    assert len(launcher.members) == 3


def test_a_member_that_was_ready_for_a_while_is_replaced_at_once_however_often_it_is_killed() -> None:
    slot, launcher = start()
    for count in range(1, 6):
        for second in (0.0, USEFUL_SECONDS):
            launcher.members[-1].words = [Status(True, [], "")]
            turn(slot, count * 10.0 + second)
        launcher.members[-1].code = -9
        turn(slot, count * 10.0 + 5)
        assert len(launcher.members) == count + 1
    assert slot.failure is None


def test_nothing_is_restarted_in_a_drain() -> None:
    slot, launcher = start()
    slot.drain()
    turn(slot, 1.0)
    turn(slot, 100.0)
    assert slot.member is None
    assert (len(launcher.members), slot.drain_code, slot.failure) == (1, 0, None)


def test_a_message_to_a_member_that_is_gone_closes_what_came_with_it() -> None:
    slot, _ = start()
    slot.drain()
    turn(slot, 1.0)
    message: Message = Status(True, [], "")
    slot._post(message, ())
