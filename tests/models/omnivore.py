"""A model for every content type, whose answers can be worked out by hand."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from model_store.inference_model import InferenceModel
from model_store.payloads import Payload
from schemas.errors import InvalidInputError
from schemas.records import JPEG, JSON, NPY, PNG, SAFETENSORS, TEXT


class Omnivore(InferenceModel):
    """A picture: its mean colour. `.npy`: its sum. safetensors: the sum of `x`. Text: its length.

    JSON: `{"x": number}` gives the number; `{"grow": n}` gives a text of n characters.
    """

    def build(self) -> torch.nn.Module:
        return torch.nn.Linear(1, 1)

    def preprocess(self, payload: Payload) -> Any:
        kind = payload.content_type
        if kind in (JPEG, PNG):
            return (payload.image().reshape(-1, 3).mean(axis=0, dtype=np.float64).astype(np.float32),)
        if kind == JSON:
            value = payload.json()
            return np.array([float(value.get("x") if "x" in value else value["grow"]), float("grow" in value)])
        if kind == NPY:
            return np.float32(payload.numbers().sum())
        if kind == SAFETENSORS:
            return np.float32(payload.tensors()["x"].sum())
        if kind == TEXT:
            return np.float32(len(payload.text()))
        raise InvalidInputError(f"{kind} is nothing to answer")

    def forward(self, module: Any, inputs: Any) -> Any:
        return inputs

    def postprocess(self, outputs: Any, count: int) -> Sequence[Any]:
        if isinstance(outputs, tuple):
            return outputs[0].tolist()
        if outputs.ndim == 2:
            return ["y" * int(number) if grow else number for number, grow in outputs.tolist()]
        return outputs.tolist()

    def example(self) -> Payload:
        return Payload(JSON, b'{"x": 1}')
