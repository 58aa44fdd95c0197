import threading
from collections.abc import Callable, Iterator

import pytest

from schemas.errors import UnavailableError
from stream_workers import answer_courier
from stream_workers.answer_courier import BATCH, MAX_OPEN_QUESTIONS, REST_SECONDS, AnswerCourier, AnswerDoor
from tests.fakes.fake_result_cache import FakeResultCache

KEY, OTHER = b"k" * 64, b"o" * 64


class GatedCache(FakeResultCache):
    """Lets each call through when the test says so, and says when it is in one."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Semaphore(0)
        self.calls = threading.Semaphore(0)

    def _check(self) -> None:
        self.calls.release()
        assert self.gate.acquire(timeout=20)
        super()._check()


class Rig:
    def __init__(self, door: FakeResultCache | None = None) -> None:
        self.now = 100.0
        self.door = door or FakeResultCache()
        self.courier = AnswerCourier(self.connect, lambda: self.now)

    def connect(self) -> AnswerDoor:
        return self.door

    def replies(self, count: int) -> list[tuple[bytes, bytes | None]]:
        found: list[tuple[bytes, bytes | None]] = []
        wait_until(lambda: found.extend(self.courier.take_replies()) or len(found) >= count)
        return found

    def faults(self, reason: str) -> None:
        seen = 0

        def has_come() -> bool:
            nonlocal seen
            seen += self.courier.take_faults().get(reason, 0)
            return seen > 0

        wait_until(has_come)


def wait_until(condition: Callable[[], bool]) -> None:
    nothing = threading.Event()
    for _ in range(20_000):
        if condition():
            return
        nothing.wait(0.001)
    raise TimeoutError


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.courier.close()


def test_what_was_put_is_replied(rig: Rig) -> None:
    rig.courier.put(KEY, b"1")
    wait_until(lambda: KEY in rig.door.values)
    assert rig.courier.ask([KEY, OTHER])
    assert rig.replies(2) == [(KEY, b"1"), (OTHER, None)]


def test_more_than_one_batch_is_carried(rig: Rig) -> None:
    keys = [b"%064d" % number for number in range(3 * BATCH + 1)]
    for key in keys:
        rig.courier.put(key, b"1")
    wait_until(lambda: len(rig.door.values) == len(keys))
    rig.courier.ask(keys)
    assert rig.replies(len(keys)) == [(key, b"1") for key in keys]


def test_an_error_is_a_miss_and_then_the_store_is_left_alone_for_a_while(rig: Rig) -> None:
    rig.door.is_down = True
    rig.courier.ask([KEY])
    assert rig.replies(1) == [(KEY, None)]
    rig.faults("unavailable")
    rig.door.is_down = False
    assert not rig.courier.ask([KEY])
    rig.courier.put(KEY, b"1")
    rig.now += REST_SECONDS + 0.1
    assert rig.courier.ask([KEY])
    assert rig.replies(1) == [(KEY, None)]


def test_a_store_that_cannot_be_connected_to_is_an_error_too() -> None:
    def fail() -> AnswerDoor:
        raise UnavailableError("no")

    courier = AnswerCourier(fail)
    courier.ask([KEY])
    wait_until(lambda: courier.take_replies() == [(KEY, None)])
    assert courier.take_faults() == {"unavailable": 1}
    courier.close()


def test_values_that_are_no_entries_are_counted(rig: Rig) -> None:
    rig.door.put(KEY, b"garbage")
    rig.courier.ask([KEY])
    assert rig.replies(1) == [(KEY, None)]
    rig.faults("refused")


def test_a_slow_store_holds_up_nobody_and_what_waits_for_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_courier, "MAX_WAITING_BYTES", 100)
    door = GatedCache()
    rig = Rig(door)
    keys = [b"%064d" % number for number in range(MAX_OPEN_QUESTIONS)]
    assert rig.courier.ask(keys)
    assert door.calls.acquire(timeout=20)
    assert not rig.courier.ask([KEY])
    rig.courier.put(KEY, b"1" * 90)
    rig.courier.put(OTHER, b"2" * 90)
    assert rig.courier.take_replies() == []
    assert rig.courier.take_faults() == {"busy": 2}
    door.gate.release(len(keys))
    rig.replies(len(keys))
    assert rig.courier.ask([KEY]), "there is room again"
    wait_until(lambda: KEY in door.values)
    assert OTHER not in door.values
    rig.courier.close()
    assert door.is_closed


def test_closing_what_never_began_is_at_once() -> None:
    AnswerCourier(FakeResultCache).close()
