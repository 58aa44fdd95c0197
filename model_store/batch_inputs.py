"""From items to the input of one run of the module: stacked in buffers that are lent, and padded to a size bucket."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from model_store.inference_model import stack_items
from model_store.input_buffers import BUFFER_BYTES, Buffer, InputBuffers
from model_store.size_buckets import bucket_for

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class BatchPlan:
    """How batches of one model are prepared."""

    max_batch_size: int
    buckets: tuple[int, ...] = ()
    """Rising batch sizes that the module is run with, see :mod:`model_store.size_buckets`. Empty: any size."""
    decode_threads: int = 0
    """Threads that preprocess single records; 0 for none beside the caller's."""
    buffer_bytes: int = BUFFER_BYTES
    """Bound of the input buffers."""


@dataclass(slots=True)
class BatchInput:
    """One run of the module: `indices` are the places of its records in the batch, `padded` rows follow theirs."""

    indices: Sequence[int]
    inputs: Any
    padded: int = 0
    lent: list[Buffer] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """What the module sees along the first axis."""
        return len(self.indices) + self.padded


class Memory(Protocol):
    """Where inputs lie; part of :class:`model_store.loaded_model.Runtime`."""

    def allocate(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return fresh memory for inputs, [rows, ...], in the layout that the module likes best."""

    def fill(self, rows: Array, items: Sequence[Array] | Array) -> None:
        """Copy items into the rows, one each."""


class InputBuilder:
    """Builds batch inputs of one model. Without a plan, every batch is stacked into memory of its own."""

    def __init__(self, memory: Memory, plan: BatchPlan | None = None) -> None:
        self._memory = memory
        self._buckets = plan.buckets if plan is not None else ()
        self.buffers = InputBuffers(plan.max_batch_size, memory.allocate, plan.buffer_bytes) if plan else None

    def stack(self, indices: Sequence[int], items: Sequence[Any]) -> BatchInput:
        """Stack items of like shape as :func:`~model_store.inference_model.stack_items` does, and pad them."""
        if self.buffers is None:
            return BatchInput(indices, stack_items(items))
        built = BatchInput(indices, None, bucket_for(len(items), self._buckets) - len(items))
        with self._released_on_failure(built):
            built.inputs = self._stack(items, built)
        return built

    def pad(self, indices: Sequence[int], inputs: Any) -> BatchInput:
        """Take an input that the model class has joined itself, and pad it when its first axis is the records."""
        built = BatchInput(indices, inputs, bucket_for(len(indices), self._buckets) - len(indices))
        if not built.padded or not _has_rows(inputs, len(indices)):
            return BatchInput(indices, inputs)
        with self._released_on_failure(built):
            built.inputs = _map(inputs, lambda rows: self._stack_arrays(rows, built))
        return built

    def release(self, built: BatchInput) -> None:
        """Give back what the input lies in: it must not be read any more."""
        if self.buffers is not None:
            for buffer in built.lent:
                self.buffers.give_back(buffer)
        built.lent = []

    @contextlib.contextmanager
    def _released_on_failure(self, built: BatchInput) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.release(built)
            raise

    def _stack(self, items: Sequence[Any], built: BatchInput) -> Any:
        first = items[0]
        if isinstance(first, dict):
            return {name: self._stack([item[name] for item in items], built) for name in first}
        if isinstance(first, tuple):
            return tuple(self._stack(column, built) for column in zip(*items, strict=True))
        if hasattr(first, "numpy"):
            return self._stack_arrays([item.numpy() for item in items], built)
        if isinstance(first, np.ndarray):
            return self._stack_arrays(items, built)
        return _repeat_last(np.stack(items), built.padded)

    def _stack_arrays(self, items: Sequence[Array] | Array, built: BatchInput) -> Array:
        """Copy arrays into a buffer, the last one as often again as rows are padded."""
        count, first, last = len(items), items[0], items[-1]
        buffer = None
        if self.buffers is not None and first.dtype.kind in "biufc":
            buffer = self.buffers.lend(first.shape, first.dtype, count + built.padded)
        if buffer is None:
            return _repeat_last(np.stack(items), built.padded)  # type: ignore[arg-type]  # an array is a sequence of its rows
        built.lent.append(buffer)
        rows = buffer.rows[: count + built.padded]
        self._memory.fill(rows[:count], items)
        rows[count:] = last
        return rows


def cut_rows(outputs: Any, rows: int, count: int) -> Any:
    """Return outputs without the padded rows: whatever has `rows` along its first axis keeps the first `count`."""
    if isinstance(outputs, dict):
        return {name: cut_rows(part, rows, count) for name, part in outputs.items()}
    if type(outputs) in (list, tuple) and not _counts_rows(outputs, rows):
        return type(outputs)(cut_rows(part, rows, count) for part in outputs)
    return outputs[:count] if _counts_rows(outputs, rows) else outputs


def _counts_rows(value: Any, rows: int) -> bool:
    if isinstance(value, list | tuple):
        return len(value) == rows and not any(hasattr(part, "shape") for part in value)
    shape = getattr(value, "shape", None)
    return shape is not None and len(shape) > 0 and bool(shape[0] == rows)


def _has_rows(inputs: Any, count: int) -> bool:
    if isinstance(inputs, dict):
        return bool(inputs) and all(_has_rows(part, count) for part in inputs.values())
    if isinstance(inputs, tuple):
        return bool(inputs) and all(_has_rows(part, count) for part in inputs)
    if not isinstance(inputs, np.ndarray):
        try:
            inputs = inputs.numpy()
        except (AttributeError, TypeError, RuntimeError):  # no tensor, or one that numpy cannot hold or reach
            return False
    return bool(inputs.ndim) and len(inputs) == count


def _map(inputs: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(inputs, dict):
        return {name: _map(part, change) for name, part in inputs.items()}
    if isinstance(inputs, tuple):
        return tuple(_map(part, change) for part in inputs)
    return change(inputs.numpy() if hasattr(inputs, "numpy") else inputs)


def _repeat_last(rows: Array, times: int) -> Array:
    return np.concatenate([rows, np.repeat(rows[-1:], times, axis=0)]) if times else rows
