"""The class that a user writes: how one record becomes a model input, and how the model's output becomes answers.

The framework owns everything else: weights, devices, batches, errors and JSON. No torch is needed to write or test the
parts around the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from model_store.payloads import Payload
from schemas.errors import InvalidRecordError


@dataclass(frozen=True)
class ModelContext:
    """What a model class is told about the version it serves."""

    labels: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    name: str = "model"
    version: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    """The texts that the weights file carries beside its tensors."""


class InferenceModel:
    """Subclass this and register it under `model.classes`. `build`, `preprocess` and `postprocess` are the usual three.

    One instance serves one version in one process, from one thread; with `model.decode_threads`, `preprocess`,
    `preprocess_batch` and `collate` run beside `forward`, and with more than one of them `preprocess` beside itself. An
    item is an array, a tensor, or a tuple or dict of them; items of unlike shapes never meet in one `collate`.

    What is collated here lies in memory that the next batches are written to: outputs that are views of the inputs may
    be read in `postprocess`, and kept as copies only.
    """

    cacheable: ClassVar[bool] = False
    """Set it to True when an answer depends on the content type and bytes of its own record and on nothing else: not on
    time, chance, files, or records before it. Then `cache.enabled` may give the answer again, and a payload's `key` and
    `request_id` are always None and empty, whether or not a cache is used.
    """

    def __init__(self, context: ModelContext) -> None:
        self.context = context

    def build(self) -> Any:
        """Return the `torch.nn.Module` without weights: the loader assigns and checks them, and calls `eval()`."""
        raise NotImplementedError(f"{type(self).__name__} must define build()")

    def preprocess(self, payload: Payload) -> Any:
        """Turn one record into an item. Raise InvalidInputError to refuse this record alone."""
        return payload.numbers()

    def preprocess_batch(self, payloads: Sequence[Payload]) -> Any:
        """Turn all records of a batch into items, in order: a list of items, with an exception for a refused record.

        Override it to vectorise. It may then return one array whose first axis is the records, which is not collated
        again. If it raises, the records are taken one by one through `preprocess` to find the guilty one.
        """
        items: list[Any] = []
        for payload in payloads:
            try:
                items.append(self.preprocess(payload))
            except InvalidRecordError as error:
                items.append(error)
        return items

    def collate(self, items: Sequence[Any]) -> Any:
        """Join items of like shape into one batch input. Arrays in it become tensors on the model's device."""
        return stack_items(items)

    def forward(self, module: Any, inputs: Any) -> Any:
        """Run the module on one batch input, in inference mode."""
        return module(inputs)

    def postprocess(self, outputs: Any, count: int) -> Sequence[Any]:  # noqa: ARG002 - part of the contract
        """Return exactly `count` answers that JSON can hold, in order; an array or tensor counts by its first axis.

        `outputs` are on the CPU.
        """
        answers: Sequence[Any] = outputs
        return answers

    def example(self) -> Payload | None:
        """Return a record for the warm-up, or None when there is none."""
        return None


def stack_items(items: Sequence[Any]) -> Any:
    """Stack arrays or CPU tensors of like shape along a new first axis, inside tuples and dicts too."""
    first = items[0]
    if isinstance(first, dict):
        return {name: stack_items([item[name] for item in items]) for name in first}
    if isinstance(first, tuple):
        return tuple(stack_items(column) for column in zip(*items, strict=True))
    if hasattr(first, "numpy"):
        return np.stack([item.numpy() for item in items])
    return np.stack(items)


def describe_shape(item: Any) -> Any:
    """Return a hashable key that is equal for items that may meet in one batch."""
    if isinstance(item, dict):
        return tuple((name, describe_shape(item[name])) for name in sorted(item))
    if isinstance(item, tuple):
        return tuple(describe_shape(part) for part in item)
    shape = getattr(item, "shape", None)
    return type(item) if shape is None else (tuple(shape), getattr(item, "dtype", None))
