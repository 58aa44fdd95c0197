"""A model that does what its input says: computes, or misbehaves in one of the ways that models do."""

import ctypes
import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from model_store.inference_model import InferenceModel
from model_store.payloads import Payload
from schemas.errors import InvalidInputError
from schemas.records import JSON

# What a record may ask for in forward, where the whole batch is at stake.
FORWARD = {"raise": 1.0, "exit": 2.0, "segv": 3.0, "sleep": 4.0, "short": 5.0, "nan": 6.0, "sys_exit": 7.0}


def expected(x: float) -> float:
    """The answer to `x`."""
    return 2.0 * x + 1.0


class Obedient(InferenceModel):
    """Payload: {"x": number, "do": what}; `pre_` in front of `do` does it in preprocess."""

    def build(self) -> torch.nn.Module:
        time.sleep(float(self.context.options.get("load_seconds", 0.0)))
        if self.context.options.get("refuse"):
            raise RuntimeError("this version never loads")
        if self.context.options.get("die"):
            os._exit(9)
        # Touched, so that it is memory and not only a promise of it.
        self._ballast = np.ones(int(self.context.options.get("ballast_bytes", 0)), dtype=np.uint8)
        print("a model may print what it likes", flush=True)
        return torch.nn.Linear(1, 1)

    def preprocess(self, payload: Payload) -> Any:
        value = payload.json()
        do = value.get("do", "")
        if do == "refuse":
            raise InvalidInputError("refused as asked")
        if do.startswith("pre_"):
            misbehave(FORWARD[do.removeprefix("pre_")])
        return np.array([value["x"], FORWARD.get(do, 0.0)], dtype=np.float32)

    def forward(self, module: Any, inputs: Any) -> Any:
        for action in inputs[:, 1].tolist():
            misbehave(action)
        return torch.cat([module(inputs[:, :1]), inputs[:, 1:]], dim=1)

    def postprocess(self, outputs: Any, count: int) -> Sequence[Any]:
        if (outputs[:, 1] == FORWARD["short"]).any():
            return outputs[:-1, 0].tolist()
        values = outputs[:, 0].tolist()
        return [math.nan if do == FORWARD["nan"] else value for value, do in zip(values, outputs[:, 1], strict=True)]

    def example(self) -> Payload:
        return Payload(JSON, b'{"x": 1}')


class Counting(InferenceModel):
    """Answers each payload with its length, all records at once: next to nothing but the way there and back."""

    def build(self) -> torch.nn.Module:
        return torch.nn.Linear(1, 1)

    def preprocess_batch(self, payloads: Sequence[Payload]) -> Any:
        return np.array([[len(payload.data)] for payload in payloads], dtype=np.float32)

    def forward(self, module: Any, inputs: Any) -> Any:
        return inputs


def misbehave(action: float) -> None:
    """Do one of `FORWARD`; nothing for any other number."""
    if action == FORWARD["raise"]:
        raise RuntimeError("raised as asked")
    if action == FORWARD["exit"]:
        os._exit(7)
    if action == FORWARD["segv"]:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        ctypes.string_at(0)
    if action == FORWARD["sleep"]:
        time.sleep(3600)
    if action == FORWARD["sys_exit"]:
        sys.exit(3)
