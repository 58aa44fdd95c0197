"""One loaded version, ready to answer batches. Knows no torch: what needs it is handed in as a `Runtime`."""

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from model_store.batch_inputs import BatchInput, BatchPlan, InputBuilder, Memory, cut_rows
from model_store.inference_model import InferenceModel, describe_shape
from model_store.outcomes import ModelStageError, RecordError, refuse
from model_store.output_encoding import NonFinite, encode_answers
from model_store.payloads import Payload
from model_store.preprocessing import WHOLE_BATCH, Preprocessor, Progress
from schemas.errors import InvalidOutputError
from schemas.records import Stage

Answer = bytes | RecordError


class Runtime(Memory, Protocol):
    """The tensor library, as far as answering a batch needs it."""

    def inference(self) -> AbstractContextManager[Any]:
        """Switch gradients off inside the block."""

    def to_device(self, inputs: Any) -> Any:
        """Make tensors of the arrays in a batch input, on the model's device."""

    def to_host(self, outputs: Any) -> Any:
        """Bring the module's outputs to the CPU."""


def _ignore(index: int) -> None:
    pass


@dataclass(slots=True)
class Prepared:
    """A batch that is ready for the module. Give it to `answer` or to `discard`, once."""

    count: int
    answers: list[Answer | None]
    """One per record; those refused so far are filled in."""
    groups: list[BatchInput]
    """Records of like shape together, their inputs on the model's device."""
    result_bytes: int
    stages_ms: list[float]


class LoadedModel:
    """A module with its weights and the user's code around it.

    One batch may be prepared by another thread while one is answered; otherwise not safe for more than one thread.
    """

    def __init__(self, model: InferenceModel, module: Any, runtime: Runtime, non_finite: NonFinite = "reject") -> None:
        self.model = model
        self.module = module
        self._runtime = runtime
        self._non_finite: NonFinite = non_finite
        self._stages = [0.0, 0.0, 0.0]
        self._padded = 0
        self._collates = type(model).collate is not InferenceModel.collate
        self._preprocessor = Preprocessor(model)
        self._inputs = InputBuilder(runtime)

    def use_plan(self, plan: BatchPlan) -> None:
        """Prepare batches by this plan from now on: with buffers, size buckets and decode threads. Before any batch."""
        self._preprocessor = Preprocessor(self.model, plan.decode_threads)
        self._inputs = InputBuilder(self._runtime, plan)

    @property
    def sees_payload_only(self) -> bool:
        """True when the class declares `cacheable`: it is held to that, so keys and request ids are kept from it."""
        return self.model.cacheable

    @property
    def stages_ms(self) -> Sequence[float]:
        """Of the last run: preprocess and collate; copy and forward; postprocess and JSON. Milliseconds."""
        return self._stages

    @property
    def padded(self) -> int:
        """Of the last run: rows that the module computed for nobody, to fill a size bucket."""
        return self._padded

    @property
    def buffer_allocations(self) -> int:
        """Input buffers made so far: constant in steady state."""
        return self._inputs.buffers.allocations if self._inputs.buffers is not None else 0

    def run(self, payloads: Sequence[Payload], progress: Progress = _ignore) -> list[Answer]:
        """Answer every record, in order: JSON bytes, or a RecordError for a record that is itself at fault.

        `progress` is told the index of a record before its own preprocess and WHOLE_BATCH before what touches all, so
        that a crash can be laid at a door. Raises ModelStageError when forward, collate or postprocess fails.
        """
        return self.answer(self.prepare(payloads, progress), progress)

    def prepare(self, payloads: Sequence[Payload], progress: Progress = _ignore) -> Prepared:
        """Preprocess, collate and copy: the first half of `run`. The payloads are not needed any more afterwards."""
        began = time.perf_counter()
        limit = payloads[0].limits.result_bytes if payloads else 0
        batch = Prepared(len(payloads), [None] * len(payloads), [], limit, [0.0, 0.0, 0.0])
        try:
            self._build_inputs(payloads, batch, progress)
            collated = time.perf_counter()
            self._copy(batch)
        except BaseException:
            self.discard(batch)
            raise
        batch.stages_ms[0] = (collated - began) * 1000
        batch.stages_ms[1] = (time.perf_counter() - collated) * 1000
        return batch

    def answer(self, batch: Prepared, progress: Progress = _ignore) -> list[Answer]:
        """Forward, postprocess and encode: the second half of `run`."""
        self._stages = batch.stages_ms
        self._padded = sum(group.padded for group in batch.groups)
        try:
            for group in batch.groups:
                progress(WHOLE_BATCH)
                for index, answer in zip(group.indices, self._answer_group(group), strict=True):
                    fits = isinstance(answer, RecordError) or len(answer) <= batch.result_bytes
                    batch.answers[index] = answer if fits else _refuse_large(batch.result_bytes)
        finally:
            self.discard(batch)
        return batch.answers  # type: ignore[return-value]  # every index is in one group or already refused

    def discard(self, batch: Prepared) -> None:
        """Give the batch's buffers back: it will not be answered."""
        for group in batch.groups:
            self._inputs.release(group)
        batch.groups = []

    def warm_up(self, max_batch_size: int, sizes: Sequence[int] = ()) -> int:
        """Run the model's example alone and in batches of `sizes`; by default as one full batch.

        Returns how many records ran, 0 without an example. Raises ModelStageError when it fails or is refused.
        """
        example = self.model.example()
        if example is None:
            return 0
        sizes = (1, *(sizes or (max_batch_size,)))
        for size in sizes:
            answer = self.run([example] * size)[0]
            if isinstance(answer, RecordError):
                raise ModelStageError(answer.stage, InvalidOutputError(f"the example was refused: {answer.message}"))
        return sum(sizes)

    def _build_inputs(self, payloads: Sequence[Payload], batch: Prepared, progress: Progress) -> None:
        """Preprocess all; make one batch input per shape with the records in it. Refusals are answered here."""
        items = self._preprocessor.run(payloads, progress)
        if isinstance(items, np.ndarray) or hasattr(items, "numpy"):
            if len(payloads):
                batch.groups.append(self._inputs.pad(range(len(payloads)), items))
            return
        groups: dict[Any, list[int]] = {}
        for index, item in enumerate(items):
            if isinstance(item, BaseException):
                batch.answers[index] = refuse(Stage.PREPROCESS, item)
            else:
                groups.setdefault(describe_shape(item), []).append(index)
        for group in groups.values():
            batch.groups.append(self._collate(group, [items[index] for index in group]))

    def _collate(self, indices: list[int], items: list[Any]) -> BatchInput:
        try:
            if self._collates:
                return self._inputs.pad(indices, self.model.collate(items))
            return self._inputs.stack(indices, items)
        except Exception as error:
            raise ModelStageError(Stage.PREPROCESS, error) from error

    def _copy(self, batch: Prepared) -> None:
        try:
            for group in batch.groups:
                group.inputs = self._runtime.to_device(group.inputs)
        except Exception as error:
            raise ModelStageError(Stage.MODEL, error) from error

    def _answer_group(self, group: BatchInput) -> list[Answer]:
        count, stage, began = len(group.indices), Stage.MODEL, time.perf_counter()
        try:
            with self._runtime.inference():
                outputs = self._runtime.to_host(self.model.forward(self.module, group.inputs))
                if group.padded:
                    outputs = cut_rows(outputs, group.rows, count)
                stage, ran = Stage.POSTPROCESS, time.perf_counter()
                answers = self.model.postprocess(outputs, count)
                _check_count(answers, count)
                encoded = encode_answers(answers, self._non_finite)
        except Exception as error:
            raise ModelStageError(stage, error) from error
        self._stages[1] += (ran - began) * 1000
        self._stages[2] += (time.perf_counter() - ran) * 1000
        return encoded


def _refuse_large(limit: int) -> RecordError:
    return refuse(Stage.POSTPROCESS, InvalidOutputError(f"the model's answer is larger than {limit} bytes"))


def _check_count(answers: Any, count: int) -> None:
    """A wrong count would shift every answer after the gap to the wrong record, so it fails the whole batch."""
    if isinstance(answers, str | bytes | dict) or not hasattr(answers, "__len__"):
        raise InvalidOutputError(f"postprocess must return a sequence of {count} answers, not {type(answers).__name__}")
    if len(answers) != count:
        raise InvalidOutputError(f"postprocess returned {len(answers)} answers for {count} records")
