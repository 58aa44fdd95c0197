"""A model of your own: four numbers of a payment in, the probability of fraud out."""

from collections.abc import Sequence
from typing import Any

import torch

from model_store.inference_model import InferenceModel
from model_store.payloads import Payload
from schemas.errors import InvalidInputError


class FraudScore(InferenceModel):
    cacheable = True

    def build(self) -> torch.nn.Module:
        return torch.nn.Linear(4, 1)

    def preprocess(self, payload: Payload) -> Any:
        row = payload.numbers()
        if row.shape != (4,):
            raise InvalidInputError(f"four numbers are needed, not {row.shape}")
        return row

    def postprocess(self, outputs: Any, count: int) -> Sequence[Any]:
        return [{"fraud": round(score, 4)} for score in torch.sigmoid(outputs[:, 0]).tolist()]
