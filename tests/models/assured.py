"""A model that says how sure it is: as sure as its version's options say, and it fails on the rows that they name."""

from collections.abc import Sequence
from typing import Any

import torch

from model_store.inference_model import InferenceModel
from model_store.payloads import Payload
from schemas.records import JSON


class Assured(InferenceModel):
    """Takes a JSON list of numbers and looks at the first one. Options: `confidence`, and `fails_at`, a number."""

    def build(self) -> torch.nn.Module:
        return torch.nn.Linear(1, 1)

    def preprocess(self, payload: Payload) -> Any:
        return payload.numbers()[:1]

    def forward(self, module: Any, inputs: Any) -> Any:
        if (inputs == self.context.options.get("fails_at", -1.0)).any():
            raise RuntimeError("this version cannot answer that")
        return module(inputs)

    def postprocess(self, outputs: Any, count: int) -> Sequence[Any]:
        confidence = self.context.options["confidence"]
        return [{"value": value, "confidence": confidence} for value in outputs[:, 0].tolist()]

    def example(self) -> Payload:
        return Payload(JSON, b"[1.0]")
