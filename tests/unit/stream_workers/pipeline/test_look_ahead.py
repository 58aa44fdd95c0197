"""What is prepared while a batch runs, with a model and a member that the test plays."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from model_store.outcomes import RecordError
from model_store.payloads import Payload
from schemas.settings import LimitSettings
from stream_workers.links.framing import LinkClosedError
from stream_workers.links.input_ring import IDLE, PAGE_BYTES, InputRing, create_ring
from stream_workers.links.messages import Done, Fault, Message, Raised, Run
from stream_workers.pipeline.batch_runner import BatchRunner
from stream_workers.pipeline.look_ahead import LookAhead
from stream_workers.pipeline.order_queue import OrderQueue


class Upper:
    """Answers in capitals; fails to prepare `boom`, and waits while it prepares `slow`."""

    stages_ms = (1.0, 2.0, 3.0)
    padded = 0
    sees_payload_only = True

    def __init__(self) -> None:
        self.prepared: list[list[bytes]] = []
        self.discarded: list[list[bytes]] = []
        self.threads: list[str] = []
        self.begun, self.go_on = threading.Event(), threading.Event()

    def prepare(self, payloads: Sequence[Payload], progress: Callable[[int], None]) -> list[bytes]:
        texts = [bytes(payload.data) for payload in payloads]
        self.threads.append(threading.current_thread().name)
        for index in range(len(texts)):
            progress(index)
        self.prepared.append(texts)
        if b"slow" in texts:
            self.begun.set()
            assert self.go_on.wait(10)
        if b"boom" in texts:
            raise SystemExit(1)
        return texts

    def answer(self, batch: list[bytes], progress: Callable[[int], None]) -> list[bytes | RecordError]:
        return [text.upper() for text in batch]

    def run(self, payloads: Sequence[Payload], progress: Callable[[int], None]) -> list[bytes | RecordError]:
        return self.answer(self.prepare(payloads, progress), progress)

    def discard(self, batch: Any) -> None:
        self.discarded.append(batch)


class Member:
    """Orders that come when the test sends them."""

    def __init__(self, ring: InputRing) -> None:
        self.orders = OrderQueue()
        self.received = threading.Event()
        self._ring = ring
        self._ours, self._theirs = socket.socketpair()
        self._coming: list[Run] = []

    def make(self, batch_id: int, text: bytes, *, isolated: bool = False, priority: int = 0) -> Run:
        slot = batch_id % self._ring.slots
        self._ring.write(slot, text)
        return Run(
            batch_id, slot, isolated, [len(text)], ["text/plain"], [None], [str(batch_id)], priority, most_passed_over=9
        )

    def send(self, order: Run) -> None:
        self._coming.append(order)
        self._ours.send(b"x")

    def leave(self) -> None:
        self._ours.close()

    def fileno(self) -> int:
        return self._theirs.fileno()

    def receive(self) -> None:
        if not self._theirs.recv(1):
            raise LinkClosedError("the member closed it")
        self.orders.add(self._coming.pop(0))


class Stage:
    def __init__(self) -> None:
        self.ring = InputRing(create_ring(4, PAGE_BYTES), 4, PAGE_BYTES)
        self.ring.reset()
        self.model, self.member = Upper(), Member(self.ring)
        self.now = 1.0
        self.runner = BatchRunner(self.model, self.ring, LimitSettings(), wall_clock=lambda: self.now)
        self.ahead = LookAhead(self.runner, self.ring)

    def run(self, order: Run) -> list[Message]:
        """What the model process does with the order whose turn it is."""
        prepared = self.ahead.get_ready(order)
        with self.ahead.beside(self.member):
            return list(self.runner.finish(prepared))


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.model.go_on.set()
    made.ahead.abandon()


def outputs(messages: Sequence[Message]) -> list[bytes]:
    return [message.outputs for message in messages if isinstance(message, Done)]


def test_an_order_that_waits_is_prepared_once_while_another_runs(stage: Stage) -> None:
    first, second = stage.member.make(1, b"a"), stage.member.make(2, b"b")
    stage.member.orders.add(second)

    assert outputs(stage.run(first)) == [b"A"]
    stage.ahead.wait()
    assert stage.model.prepared == [[b"a"], [b"b"]]
    assert outputs(stage.run(stage.member.orders.take())) == [b"B"]

    assert stage.model.prepared == [[b"a"], [b"b"]]
    assert stage.model.threads[0] == threading.current_thread().name
    assert stage.model.threads[1].startswith("prepare")


def test_an_order_that_arrives_while_a_batch_runs_is_prepared_too(stage: Stage) -> None:
    prepared = stage.ahead.get_ready(stage.member.make(1, b"a"))
    with stage.ahead.beside(stage.member):
        stage.member.send(stage.member.make(2, b"slow"))
        assert stage.model.begun.wait(10)
        assert stage.ring.progress().preparing == 2
        stage.model.go_on.set()
        assert outputs(list(stage.runner.finish(prepared))) == [b"A"]

    assert outputs(stage.run(stage.member.orders.take())) == [b"SLOW"]
    assert stage.ring.progress()[:2] == (IDLE, IDLE)
    assert stage.ring.progress().preparing == IDLE


def test_the_ring_moves_on_while_a_batch_is_prepared(stage: Stage) -> None:
    prepared = stage.ahead.get_ready(stage.member.make(1, b"a"))
    before = stage.ring.progress().counter
    with stage.ahead.beside(stage.member):
        stage.member.send(stage.member.make(2, b"slow"))
        assert stage.model.begun.wait(10)
        assert stage.ring.progress().counter > before
        stage.model.go_on.set()
    stage.runner.discard(prepared)


def test_what_is_more_urgent_runs_before_what_is_ready_which_keeps_its_preparation(stage: Stage) -> None:
    first, bulk = stage.member.make(1, b"a"), stage.member.make(2, b"b", priority=1)
    stage.member.orders.add(bulk)
    stage.run(first)
    stage.member.orders.add(stage.member.make(3, b"urgent"))

    assert outputs(stage.run(stage.member.orders.take())) == [b"URGENT"]
    assert outputs(stage.run(stage.member.orders.take())) == [b"B"]
    assert stage.model.prepared == [[b"a"], [b"b"], [b"urgent"]]


def test_an_isolated_order_is_never_prepared_beside_another(stage: Stage) -> None:
    stage.member.orders.add(stage.member.make(2, b"b", isolated=True))

    stage.run(stage.member.make(1, b"a"))
    stage.ahead.wait()

    assert stage.model.prepared == [[b"a"]]
    assert len(stage.member.orders) == 1


def test_what_preparing_raises_fails_that_batch_alone(stage: Stage) -> None:
    stage.member.orders.add(stage.member.make(2, b"boom"))

    assert outputs(stage.run(stage.member.make(1, b"a"))) == [b"A"]
    (raised,) = stage.run(stage.member.orders.take())

    assert isinstance(raised, Raised)
    assert (raised.batch_id, raised.error_class) == (2, "SystemExit")


def test_a_member_that_leaves_is_noticed_after_the_batch(stage: Stage) -> None:
    answered: list[bytes] = []
    prepared = stage.ahead.get_ready(stage.member.make(1, b"a"))

    # The other thread may be told of the batch's end before it sees the member's.
    with contextlib.suppress(LinkClosedError), stage.ahead.beside(stage.member):
        stage.member.leave()
        answered += outputs(list(stage.runner.finish(prepared)))

    assert answered == [b"A"]
    stage.ahead.abandon()


def test_what_was_prepared_for_a_session_that_ended_is_dropped(stage: Stage) -> None:
    stage.member.orders.add(stage.member.make(2, b"b"))
    stage.run(stage.member.make(1, b"a"))

    stage.ahead.abandon()

    assert stage.model.discarded == [[b"b"]]
    assert outputs(stage.run(stage.member.make(3, b"c"))) == [b"C"]


def test_what_expires_between_its_preparation_and_its_turn_never_reaches_the_model(stage: Stage) -> None:
    stage.ring.write(1, b"xy")
    order = Run(5, 1, False, [1, 1], ["text/plain"], [None], ["x", "y"], deadlines_ms=[1500, 0])
    prepared = stage.runner.prepare(order, lambda _: None)
    stage.now = 2.0

    (done,) = stage.runner.finish(prepared)

    assert isinstance(done, Done)
    assert done.faults == [Fault(0, "validate", "expired", "", "")]
    assert done.outputs == b"Y"
    assert stage.model.discarded == [[b"x", b"y"]]


def test_what_had_expired_before_is_left_out_and_the_rest_keeps_its_place(stage: Stage) -> None:
    stage.ring.write(1, b"xyz")
    order = Run(5, 1, False, [1, 1, 1], ["text/plain"], [None], ["x", "y", "z"], deadlines_ms=[0, 1, 0])

    (done,) = stage.runner.finish(stage.runner.prepare(order, lambda _: None))

    assert isinstance(done, Done)
    assert (done.lengths, done.outputs) == ([1, 0, 1], b"XZ")
    assert stage.model.prepared == [[b"x", b"z"]]
