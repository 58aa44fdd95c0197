"""The model side of a workload, shared by every contestant that is not Headrace: decode, forward, encode."""

import functools
import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import torch

from benchmarks.workloads.specification import PAYLOADS, Workload


class ModelTask(ABC):
    """What a hand-written program does with a batch of payloads.

    `is_tuned` chooses between what documentation shows (Pillow, json) and what an expert takes (simplejpeg, msgspec,
    channels_last). Both give the same answers.
    """

    @abstractmethod
    def payloads(self) -> Sequence[bytes]:
        """The distinct payloads; a backlog repeats them in order."""

    @abstractmethod
    def build(self) -> torch.nn.Module:
        """The module without meaningful weights."""

    @abstractmethod
    def state(self) -> dict[str, torch.Tensor]:
        """The weights that every contestant loads."""

    @abstractmethod
    def decode(self, payloads: Sequence[bytes], *, is_tuned: bool) -> Any:
        """Payloads to one batch input, on the CPU."""

    @abstractmethod
    def encode(self, outputs: torch.Tensor, *, is_tuned: bool) -> list[bytes]:
        """One JSON text per record."""

    def arrange(self, module: torch.nn.Module) -> torch.nn.Module:
        """Put the module into the memory format that suits the CPU."""
        return module

    def labels(self) -> tuple[str, ...]:
        """The names of the classes, where there are any."""
        return ()


def load_task(workload: Workload) -> ModelTask:
    """Import and make the task of a workload."""
    module, _, name = workload.task.partition(":")
    return cast("ModelTask", getattr(importlib.import_module(module), name)())


class ModelStep:
    """A loaded model: payloads in, JSON texts out, in one thread of intra-op threads as given."""

    def __init__(self, workload: Workload, weights: Path, *, is_tuned: bool, threads: int) -> None:
        """`weights` lies beside the payloads; `threads` of 0 leaves torch's default, which is all cores."""
        from safetensors.torch import load_file  # noqa: PLC0415 - only where a model is loaded

        if threads:
            torch.set_num_threads(threads)
        self.task = load_task(workload)
        module = self.task.build()
        module.load_state_dict(load_file(weights))
        self.module = (self.task.arrange(module) if is_tuned else module).eval()
        self.decode = functools.partial(self.task.decode, is_tuned=is_tuned)
        self._encode = functools.partial(self.task.encode, is_tuned=is_tuned)
        # Read and not made again: making frames takes longer than loading the model.
        self.payloads = msgspec.msgpack.decode((weights.parent / PAYLOADS).read_bytes(), type=list[bytes])
        self.answer(self.payloads[: workload.batch_size])

    def answer(self, payloads: Sequence[bytes]) -> list[bytes]:
        """Decode, run and encode one batch."""
        with torch.inference_mode():
            return self._encode(self.module(self.decode(payloads)))

    def forward(self, inputs: Any) -> torch.Tensor:
        """Run what `decode` made, and nothing else."""
        with torch.inference_mode():
            return cast("torch.Tensor", self.module(inputs))
