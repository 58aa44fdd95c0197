"""One loaded version, ready to answer batches. Knows no torch: what needs it is handed in as a `Runtime`."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from model_store.inference_model import InferenceModel, describe_shape
from model_store.outcomes import ModelStageError, RecordError, refuse
from model_store.output_encoding import NonFinite, encode_answers
from model_store.payloads import Payload
from schemas.errors import InvalidOutputError, InvalidRecordError
from schemas.records import Stage

WHOLE_BATCH = -1
"""What `progress` is told before code that touches all records at once."""

Answer = bytes | RecordError


class Runtime(Protocol):
    """The tensor library, as far as answering a batch needs it."""

    def inference(self) -> AbstractContextManager[Any]:
        """Switch gradients off inside the block."""

    def to_device(self, inputs: Any) -> Any:
        """Make tensors of the arrays in a batch input, on the model's device."""

    def to_host(self, outputs: Any) -> Any:
        """Bring the module's outputs to the CPU."""


def _ignore(index: int) -> None:
    pass


class LoadedModel:
    """A module with its weights and the user's code around it. Not safe for more than one thread."""

    def __init__(self, model: InferenceModel, module: Any, runtime: Runtime, non_finite: NonFinite = "reject") -> None:
        self.model = model
        self.module = module
        self._runtime = runtime
        self._non_finite: NonFinite = non_finite
        self._stages = [0.0, 0.0, 0.0]
        self._vectorised = type(model).preprocess_batch is not InferenceModel.preprocess_batch

    @property
    def sees_payload_only(self) -> bool:
        """True when the class declares `cacheable`: it is held to that, so keys and request ids are kept from it."""
        return self.model.cacheable

    @property
    def stages_ms(self) -> Sequence[float]:
        """Of the last run: preprocess and collate; copy and forward; postprocess and JSON. Milliseconds."""
        return self._stages

    def run(self, payloads: Sequence[Payload], progress: Callable[[int], None] = _ignore) -> list[Answer]:
        """Answer every record, in order: JSON bytes, or a RecordError for a record that is itself at fault.

        `progress` is told the index of a record before its own preprocess and WHOLE_BATCH before what touches all, so
        that a crash can be laid at a door. Raises ModelStageError when forward, collate or postprocess fails.
        """
        answers: list[Answer | None] = [None] * len(payloads)
        began = time.perf_counter()
        groups = self._batch_inputs(payloads, answers, progress)
        self._stages = [(time.perf_counter() - began) * 1000, 0.0, 0.0]
        for indices, inputs in groups:
            progress(WHOLE_BATCH)
            limit = payloads[indices[0]].limits.result_bytes
            for index, answer in zip(indices, self._answer(inputs, len(indices)), strict=True):
                fits = isinstance(answer, RecordError) or len(answer) <= limit
                answers[index] = answer if fits else _refuse_large(limit)
        return answers  # type: ignore[return-value]  # every index is in one group or already refused

    def warm_up(self, max_batch_size: int) -> int:
        """Run the model's example alone and as a full batch; returns how many records ran, 0 without an example.

        Raises ModelStageError when it fails or is refused.
        """
        example = self.model.example()
        if example is None:
            return 0
        for size in (1, max_batch_size):
            answer = self.run([example] * size)[0]
            if isinstance(answer, RecordError):
                raise ModelStageError(answer.stage, InvalidOutputError(f"the example was refused: {answer.message}"))
        return 1 + max_batch_size

    def _batch_inputs(
        self, payloads: Sequence[Payload], answers: list[Answer | None], progress: Callable[[int], None]
    ) -> list[tuple[Sequence[int], Any]]:
        """Preprocess all; return one batch input per shape with the records in it. Refusals are answered here."""
        items = self._preprocess(payloads, progress)
        if isinstance(items, np.ndarray) or hasattr(items, "numpy"):
            return [(range(len(payloads)), items)] if len(payloads) else []
        groups: dict[Any, list[int]] = {}
        for index, item in enumerate(items):
            if isinstance(item, BaseException):
                answers[index] = refuse(Stage.PREPROCESS, item)
            else:
                groups.setdefault(describe_shape(item), []).append(index)
        return [(group, self._collate([items[index] for index in group])) for group in groups.values()]

    def _preprocess(self, payloads: Sequence[Payload], progress: Callable[[int], None]) -> Any:
        if self._vectorised:
            progress(WHOLE_BATCH)
            try:
                items = self.model.preprocess_batch(payloads)
                if len(items) == len(payloads):
                    return items
            except Exception:  # noqa: BLE001, S110 - one by one below finds and names the guilty record
                pass
        return [self._preprocess_one(index, payload, progress) for index, payload in enumerate(payloads)]

    def _preprocess_one(self, index: int, payload: Payload, progress: Callable[[int], None]) -> Any:
        progress(index)
        try:
            return self.model.preprocess(payload)
        except InvalidRecordError as error:
            return error
        except Exception as error:  # noqa: BLE001 - user code: whatever it raises is this record's own failure
            return error

    def _collate(self, items: list[Any]) -> Any:
        try:
            return self.model.collate(items)
        except Exception as error:
            raise ModelStageError(Stage.PREPROCESS, error) from error

    def _answer(self, inputs: Any, count: int) -> list[Answer]:
        stage, began = Stage.MODEL, time.perf_counter()
        try:
            with self._runtime.inference():
                outputs = self.model.forward(self.module, self._runtime.to_device(inputs))
                outputs = self._runtime.to_host(outputs)
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
