"""Runs one batch in a model process: payloads out of the ring, the model over them, answers packed into one message."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from model_store.outcomes import ModelStageError, RecordError, describe_failure
from model_store.payloads import Payload
from schemas.errors import scrub
from schemas.records import Stage
from schemas.settings import LimitSettings
from stream_workers.links.framing import MAX_DATA_BYTES
from stream_workers.links.input_ring import InputRing
from stream_workers.links.messages import EXPIRED_CODE, Done, Fault, Message, Raised, RecordDone, Run

_EXPIRED = RecordError(Stage.VALIDATE, EXPIRED_CODE, "", "")
_ROOM_FOR_REST = 16 << 20  # of a frame: lengths, faults and numbers beside the outputs


class Answers(Protocol):
    """What runs records; see :class:`model_store.loaded_model.LoadedModel`."""

    @property
    def sees_payload_only(self) -> bool:
        """True when records are run without their key and id."""

    @property
    def stages_ms(self) -> Sequence[float]:
        """What the stages of the last run took."""

    @property
    def padded(self) -> int:
        """Rows that the last run computed for nobody."""

    def run(self, payloads: Sequence[Payload], progress: Callable[[int], None]) -> list[bytes | RecordError]:
        """Answer every record in order; raises ModelStageError."""

    def prepare(self, payloads: Sequence[Payload], progress: Callable[[int], None]) -> Any:
        """The first half of `run`, which may be done by another thread while a batch is answered."""

    def answer(self, batch: Any, progress: Callable[[int], None]) -> list[bytes | RecordError]:
        """The second half."""

    def discard(self, batch: Any) -> None:
        """Instead of the second half."""


@dataclass(slots=True)
class PreparedOrder:
    """An order whose records are ready for the module, or the reason why they are not."""

    order: Run
    alive: list[int] | None
    """Places of the records that had not expired; None when that is all of them."""
    batch: Any
    failure: BaseException | None
    seconds: float


class BatchRunner:
    """Turns each `Run` into the messages that answer it. Whatever the model raises becomes a message."""

    def __init__(
        self, model: Answers, ring: InputRing, limits: LimitSettings, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._model = model
        self._ring = ring
        self._limits = limits
        self._wall_clock = wall_clock

    def run(self, order: Run) -> Iterator[Message]:
        """Yield the answers: one message, or in isolated mode one per record and a last one.

        The batch counts as in hand from here until the last message was taken and sent.
        """
        self._ring.begin(order.batch_id)
        if order.isolated:
            yield from self._run_one_by_one(order)
        else:
            yield self._run_together(order)
            self._ring.count_answer()
        self._ring.reset()

    def prepare(self, order: Run, progress: Callable[[int], None]) -> PreparedOrder:
        """Do what comes before the module, for all records that have not expired. What that raises is kept.

        `progress` is told what is being worked on. Give the result to `finish` or to `discard`.
        """
        began = time.perf_counter()
        alive = self._find_alive(order)
        batch, failure = None, None
        try:
            payloads = self._payloads(order)
            batch = self._model.prepare(payloads if alive is None else [payloads[at] for at in alive], progress)
        except BaseException as error:  # noqa: BLE001 - user code: `finish` makes it the answer to this batch
            failure = error
        return PreparedOrder(order, alive, batch, failure, time.perf_counter() - began)

    def finish(self, prepared: PreparedOrder) -> Iterator[Message]:
        """Yield the answers to an order that was prepared. As for `run`, it is in hand until they were taken."""
        order = prepared.order
        if prepared.failure is None and self._find_alive(order) != prepared.alive:
            # Its turn came late: what has expired since must not cost the others its time in the module.
            self.discard(prepared)
            yield from self.run(order)
            return
        self._ring.begin(order.batch_id)
        yield self._answered(order, lambda: self._answer_prepared(prepared), prepared.seconds)
        self._ring.count_answer()
        self._ring.reset()

    def discard(self, prepared: PreparedOrder) -> None:
        """Let go of an order that will not be finished."""
        if prepared.batch is not None:
            self._model.discard(prepared.batch)

    def _answer_prepared(self, prepared: PreparedOrder) -> list[bytes | RecordError]:
        if prepared.failure is not None:
            raise prepared.failure
        count = len(prepared.order.lengths)
        alive = range(count) if prepared.alive is None else prepared.alive
        found = self._check(self._model.answer(prepared.batch, self._ring.touch), len(alive))
        return found if prepared.alive is None else _fill_expired(found, alive, count)

    def _run_together(self, order: Run) -> Message:
        return self._answered(order, lambda: self._answer_in_time(order), 0.0)

    def _answered(self, order: Run, answer: Callable[[], list[bytes | RecordError]], seconds: float) -> Message:
        """Return the message for what `answer` returns or raises; `seconds` were spent on the batch before."""
        began = time.perf_counter()
        try:
            answers = answer()
        except ModelStageError as error:
            return _raised(order.batch_id, error.stage, error.cause_class, str(error))
        except BaseException as error:  # noqa: BLE001 - user code: even a SystemExit is an answer to this batch
            return _raised(order.batch_id, Stage.MODEL, type(error).__name__, str(error))
        return self._pack(order.batch_id, answers, (seconds + time.perf_counter() - began) * 1000)

    def _run_one_by_one(self, order: Run) -> Iterator[Message]:
        began = time.perf_counter()
        for index, payload in enumerate(self._payloads(order)):
            self._ring.touch(index)
            answer = _EXPIRED if self._is_late(order, index) else self._answer_alone(payload, index)
            if isinstance(answer, bytes):
                yield RecordDone(order.batch_id, index, answer, None)
            else:
                yield RecordDone(order.batch_id, index, b"", _fault(index, answer))
            self._ring.count_answer()
        yield Done(order.batch_id, [], [], (time.perf_counter() - began) * 1000, b"")

    def _answer_in_time(self, order: Run) -> list[bytes | RecordError]:
        """Leave out what has expired while the batch waited: nobody wants it, and it would cost the others its time."""
        alive = self._find_alive(order)
        payloads = self._payloads(order)
        if alive is None:
            return self._answer(payloads, self._ring.touch)
        found: list[bytes | RecordError] = []
        if alive:
            found = self._answer([payloads[index] for index in alive], lambda at: self._ring.touch(_place(alive, at)))
        return _fill_expired(found, alive, len(payloads))

    def _find_alive(self, order: Run) -> list[int] | None:
        """Return the places of the records that have not expired, or None when that is all of them."""
        if not order.deadlines_ms:
            return None
        now_ms = self._wall_clock() * 1000
        alive = [index for index, deadline in enumerate(order.deadlines_ms) if not deadline or deadline > now_ms]
        return None if len(alive) == len(order.lengths) else alive

    def _is_late(self, order: Run, index: int) -> bool:
        deadline = order.deadlines_ms[index] if order.deadlines_ms else 0
        return bool(deadline) and deadline <= self._wall_clock() * 1000

    def _answer_alone(self, payload: Payload, index: int) -> bytes | RecordError:
        try:
            return self._answer([payload], lambda _: self._ring.touch(index))[0]
        except ModelStageError as error:
            return RecordError(error.stage, error.code, error.cause_class, str(error))
        except BaseException as error:  # noqa: BLE001 - as above
            return RecordError(Stage.MODEL, "model_failure", type(error).__name__, describe_failure(error))

    def _answer(self, payloads: Sequence[Payload], progress: Callable[[int], None]) -> list[bytes | RecordError]:
        """Run the model and hold it to its promise."""
        return self._check(self._model.run(payloads, progress), len(payloads))

    def _check(self, answers: list[bytes | RecordError], count: int) -> list[bytes | RecordError]:
        """A result too large to send is the fault of its record."""
        if len(answers) != count:
            raise ValueError(f"{len(answers)} answers for {count} records")
        limit = self._limits.result_bytes
        for index, answer in enumerate(answers):
            if isinstance(answer, bytes) and len(answer) > limit:
                text = f"the answer has {len(answer)} bytes: at most {limit} are allowed"
                answers[index] = RecordError(Stage.POSTPROCESS, "too_large", "PayloadTooLargeError", text)
        return answers

    def _payloads(self, order: Run) -> list[Payload]:
        lengths, limits = order.lengths, self._limits
        view = self._ring.read(order.slot, sum(lengths))
        ends = itertools.accumulate(lengths)
        types, keys = _spread(order.content_types, len(lengths)), _spread(order.keys, len(lengths))
        request_ids = order.request_ids
        if self._model.sees_payload_only:
            keys, request_ids = [None] * len(lengths), [""] * len(lengths)
        return [
            Payload(content_type, view[end - length : end], key, request_id, limits)
            for content_type, length, end, key, request_id in zip(types, lengths, ends, keys, request_ids, strict=True)
        ]

    def _pack(self, batch_id: int, answers: list[bytes | RecordError], model_ms: float) -> Message:
        faults = [_fault(index, answer) for index, answer in enumerate(answers) if not isinstance(answer, bytes)]
        outputs = [answer if isinstance(answer, bytes) else b"" for answer in answers] if faults else answers
        lengths = [len(output) for output in outputs]  # type: ignore[arg-type]  # refusals were replaced above
        if sum(lengths) > MAX_DATA_BYTES - _ROOM_FOR_REST:
            text = f"the answers have {sum(lengths)} bytes together, more than one message holds"
            return _raised(batch_id, Stage.POSTPROCESS, "PayloadTooLargeError", text)
        stages_ms = [round(ms, 3) for ms in self._model.stages_ms]
        joined = b"".join(outputs)  # type: ignore[arg-type]  # as above
        return Done(batch_id, lengths, faults, model_ms, joined, stages_ms, self._model.padded)


def _place(alive: Sequence[int], at: int) -> int:
    """From an index among the records that run to the record's place in its batch; marks for all of them stay."""
    return alive[at] if at >= 0 else at


def _fill_expired(found: Sequence[bytes | RecordError], alive: Sequence[int], count: int) -> list[bytes | RecordError]:
    answers: list[bytes | RecordError] = [_EXPIRED] * count
    for index, answer in zip(alive, found, strict=True):
        answers[index] = answer
    return answers


def _spread(values: list, count: int) -> list:  # type: ignore[type-arg]  # content types or keys
    return values * count if len(values) == 1 else values


def _fault(index: int, error: RecordError) -> Fault:
    return Fault(index, error.stage.value, error.code, error.error_class, error.message)


def _raised(batch_id: int, stage: Stage, error_class: str, message: str) -> Raised:
    return Raised(batch_id, stage.value, error_class, scrub(message))
