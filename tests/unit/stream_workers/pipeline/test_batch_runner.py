from collections.abc import Callable, Sequence

import pytest

from model_store.outcomes import ModelStageError, RecordError
from model_store.payloads import Payload
from schemas.records import Stage
from schemas.settings import LimitSettings
from stream_workers.links.input_ring import IDLE, PAGE_BYTES, InputRing, create_ring
from stream_workers.links.messages import EXPIRED_CODE, Done, Fault, Message, Raised, RecordDone, Run
from stream_workers.pipeline.batch_runner import BatchRunner

REFUSED = RecordError(Stage.PREPROCESS, "invalid_input", "InvalidInputError", "no")


class Upper:
    """Answers in capitals; refuses `no`, fails as a whole on `boom`, forgets one on `lost`."""

    def __init__(self) -> None:
        self.seen: list[Payload] = []
        self.stages_ms = [1.0, 2.0, 3.0]
        self.padded = 0
        self.prepared = 0
        self.sees_payload_only = False

    def run(self, payloads: Sequence[Payload], progress: Callable[[int], None]) -> list[bytes | RecordError]:
        self.seen += payloads
        for index in range(len(payloads)):
            progress(index)
        texts = [bytes(payload.data) for payload in payloads]
        if b"boom" in texts:
            raise ModelStageError(Stage.MODEL, RuntimeError("boom"))
        if b"bye" in texts:
            raise SystemExit(1)
        answers: list[bytes | RecordError] = [REFUSED if text == b"no" else text.upper() for text in texts]
        return answers[1:] if b"lost" in texts else answers

    def prepare(self, payloads: Sequence[Payload], progress: Callable[[int], None]) -> list[Payload]:
        progress(0)
        if any(bytes(payload.data) == b"early" for payload in payloads):
            raise SystemExit(1)
        self.prepared += 1
        return list(payloads)

    def answer(self, batch: list[Payload], progress: Callable[[int], None]) -> list[bytes | RecordError]:
        self.prepared -= 1
        return self.run(batch, progress)

    def discard(self, batch: list[Payload]) -> None:
        self.prepared -= 1


@pytest.fixture
def ring() -> InputRing:
    made = InputRing(create_ring(2, PAGE_BYTES), 2, PAGE_BYTES)
    made.reset()
    return made


def run(ring: InputRing, texts: list[bytes], *, isolated: bool = False, result_bytes: int = 1024) -> list[Message]:
    ring.write(1, b"".join(texts))
    order = Run(
        batch_id=5,
        slot=1,
        isolated=isolated,
        lengths=[len(text) for text in texts],
        content_types=["text/plain"],
        keys=[b"k"],
        request_ids=[f"r{index}" for index in range(len(texts))],
    )
    return list(BatchRunner(Upper(), ring, LimitSettings(result_bytes=result_bytes)).run(order))


def test_a_batch_is_answered_in_one_message(ring: InputRing) -> None:
    (done,) = run(ring, [b"a", b"", b"no", b"bcd"])
    assert isinstance(done, Done)
    assert (done.batch_id, done.lengths, done.outputs) == (5, [1, 0, 0, 3], b"ABCD")
    assert done.faults == [Fault(2, "preprocess", "invalid_input", "InvalidInputError", "no")]


def test_each_record_comes_with_its_type_key_and_id(ring: InputRing) -> None:
    model = Upper()
    ring.write(0, b"ab")
    order = Run(1, 0, False, [1, 1], ["text/plain", "application/json"], [b"k"], ["x", "y"])
    list(BatchRunner(model, ring, LimitSettings()).run(order))
    assert [(one.content_type, one.key, one.request_id) for one in model.seen] == [
        ("text/plain", b"k", "x"),
        ("application/json", b"k", "y"),
    ]


def test_a_model_that_declares_to_see_the_payload_only_is_held_to_it(ring: InputRing) -> None:
    model = Upper()
    model.sees_payload_only = True
    ring.write(0, b"ab")
    list(BatchRunner(model, ring, LimitSettings()).run(Run(1, 0, False, [1, 1], ["text/plain"], [b"k"], ["x", "y"])))
    assert [(one.content_type, bytes(one.data), one.key, one.request_id) for one in model.seen] == [
        ("text/plain", b"a", None, ""),
        ("text/plain", b"b", None, ""),
    ]


@pytest.mark.parametrize(
    ("text", "stage", "error_class"),
    [(b"boom", "model", "RuntimeError"), (b"bye", "model", "SystemExit"), (b"lost", "model", "ValueError")],
)
def test_a_batch_that_fails_as_a_whole_is_one_message_too(
    ring: InputRing, text: bytes, stage: str, error_class: str
) -> None:
    (raised,) = run(ring, [b"a", text])
    assert isinstance(raised, Raised)
    assert (raised.batch_id, raised.stage, raised.error_class) == (5, stage, error_class)


def test_isolated_records_are_answered_one_by_one_whatever_they_raise(ring: InputRing) -> None:
    *records, done = run(ring, [b"a", b"boom", b"bye", b"no", b"b"], isolated=True)
    assert isinstance(done, Done)
    assert [(one.index, one.output) for one in records if isinstance(one, RecordDone) and one.fault is None] == [
        (0, b"A"),
        (4, b"B"),
    ]
    codes = [one.fault.code for one in records if isinstance(one, RecordDone) and one.fault is not None]
    assert codes == ["model_failure", "model_failure", "invalid_input"]


def test_the_batch_is_in_hand_until_its_answer_was_taken(ring: InputRing) -> None:
    ring.write(0, b"a")
    answers = BatchRunner(Upper(), ring, LimitSettings()).run(Run(5, 0, False, [1], ["text/plain"], [None], ["x"]))
    next(answers)
    assert ring.progress().batch_id == 5
    assert next(answers, None) is None
    assert (ring.progress().batch_id, ring.progress().answers) == (IDLE, 1)


def test_a_result_that_is_too_large_is_the_fault_of_its_record(ring: InputRing) -> None:
    (done,) = run(ring, [b"x" * 1025, b"a"])
    assert isinstance(done, Done)
    assert [(fault.index, fault.code, fault.stage) for fault in done.faults] == [(0, "too_large", "postprocess")]
    assert done.outputs == b"A"


def test_what_has_expired_when_its_batch_begins_never_reaches_the_model(ring: InputRing) -> None:
    for isolated in (False, True):
        model = Upper()
        ring.write(0, b"abc")
        order = Run(1, 0, isolated, [1, 1, 1], ["text/plain"], [b"k"], ["x", "y", "z"], deadlines_ms=[0, 1000, 1001])
        messages = list(BatchRunner(model, ring, LimitSettings(), wall_clock=lambda: 1.0).run(order))
        assert [bytes(one.data) for one in model.seen] == [b"a", b"c"]
        faults = messages[0].faults if isinstance(messages[0], Done) else [one.fault for one in messages[:-1]]  # type: ignore[union-attr]  # isolated: a message per record
        assert [(fault.index, fault.code) for fault in faults if fault] == [(1, EXPIRED_CODE)]


def test_a_batch_of_expired_records_runs_nothing(ring: InputRing) -> None:
    model = Upper()
    order = Run(1, 0, False, [0, 0], ["text/plain"], [b"k"], ["x", "y"], deadlines_ms=[1, 1])
    (done,) = BatchRunner(model, ring, LimitSettings(), wall_clock=lambda: 1.0).run(order)
    assert isinstance(done, Done)
    assert (len(done.faults), model.seen) == (2, [])


def prepare_and_finish(ring: InputRing, texts: list[bytes]) -> list[Message]:
    model = Upper()
    ring.write(0, b"".join(texts))
    ids = [str(number) for number in range(len(texts))]
    runner = BatchRunner(model, ring, LimitSettings())
    prepared = runner.prepare(Run(9, 0, False, [len(t) for t in texts], ["text/plain"], [b"k"], ids), lambda _: None)
    assert ring.progress().batch_id == IDLE, "preparing says nothing of the batch in hand"
    messages = list(runner.finish(prepared))
    assert model.prepared == 0
    assert ring.progress().batch_id == IDLE
    return messages


def test_an_order_in_two_halves_answers_as_in_one(ring: InputRing) -> None:
    for texts in ([b"a", b"no", b"b"], [b"a", b"boom"], [b"a", b"bye"], [b"lost", b"a"]):
        (halved,) = prepare_and_finish(ring, texts)
        (whole,) = run(ring, texts)
        if isinstance(halved, Done) and isinstance(whole, Done):
            assert (halved.lengths, halved.outputs, halved.faults) == (whole.lengths, whole.outputs, whole.faults)
        else:
            assert isinstance(halved, Raised)
            assert isinstance(whole, Raised)
            assert (halved.stage, halved.error_class) == (whole.stage, whole.error_class)


def test_what_fails_while_it_is_prepared_is_the_answer_to_that_batch(ring: InputRing) -> None:
    (raised,) = prepare_and_finish(ring, [b"a", b"early"])
    assert isinstance(raised, Raised)
    assert (raised.batch_id, raised.error_class) == (9, "SystemExit")


def test_padded_rows_are_reported(ring: InputRing) -> None:
    model = Upper()
    model.padded = 3
    ring.write(0, b"a")
    (done,) = BatchRunner(model, ring, LimitSettings()).run(Run(5, 0, False, [1], ["text/plain"], [None], ["x"]))
    assert isinstance(done, Done)
    assert done.padded == 3
