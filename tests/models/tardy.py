"""A model that takes its time, as its options and its input say: in the load, in the batch, or with the GIL held."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from model_store.inference_model import InferenceModel
from model_store.payloads import Payload
from schemas.records import JSON


class Tardy(InferenceModel):
    """Payload: {"x": number, "sleep": seconds in forward, "hold": seconds in preprocess}, or a list of numbers.

    Options: `load_seconds`, and `batch_seconds` for every batch.
    """

    def build(self) -> torch.nn.Module:
        time.sleep(float(self.context.options.get("load_seconds", 0.0)))
        return torch.nn.Linear(1, 1)

    def preprocess(self, payload: Payload) -> Any:
        value = payload.json()
        if isinstance(value, list):
            value = {"x": value[0]}
        _hold_the_interpreter(value.get("hold", 0.0))
        return np.array([value["x"], value.get("sleep", 0.0)], dtype=np.float32)

    def forward(self, module: Any, inputs: Any) -> Any:
        asked = float(inputs[:, 1].max())
        time.sleep(max(asked, float(self.context.options.get("batch_seconds", 0.0))))
        return module(inputs[:, :1])

    def example(self) -> Payload:
        return Payload(JSON, b'{"x": 1}')

    def postprocess(self, outputs: Any, count: int) -> Sequence[Any]:
        return list(outputs[:, 0].tolist())


def _hold_the_interpreter(seconds: float) -> None:
    """One call after the other that no other thread of the process can interrupt."""
    over_at = time.monotonic() + seconds
    while time.monotonic() < over_at:
        pow(7, 1_000_000)
