"""A model whose records fail in company, once or slowly, and which notes down every record that reaches it."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from model_store.inference_model import InferenceModel
from model_store.payloads import Payload
from schemas.records import JSON
from tests.models.obedient import FORWARD, misbehave

SHY, ONCE, SLOW = 20.0, 21.0, 22.0
ACTIONS = {**FORWARD, "shy": SHY, "once": ONCE, "slow": SLOW}


class Trap(InferenceModel):
    """Payload: `{"x": number, "do": what, "seconds": number}`; the answer is x. Option `seen`: where ids are noted.

    `shy` raises in company only, `once` raises the first time, `slow` takes its seconds.
    """

    def build(self) -> torch.nn.Module:
        self._raised: set[float] = set()
        self._seen = Path(self.context.options["seen"]).open("a", buffering=1)  # noqa: SIM115 - lives as long as we do
        return torch.nn.Linear(1, 1)

    def preprocess(self, payload: Payload) -> Any:
        value = payload.json()
        self._seen.write(f"{json.dumps(value['x'])}\n")
        return np.array([value["x"], ACTIONS.get(value.get("do", ""), 0.0), value.get("seconds", 0.0)])

    def forward(self, module: Any, inputs: Any) -> Any:
        print("a model may print what it likes", flush=True)
        for x, action, seconds in inputs.tolist():
            misbehave(action)
            if action == SHY and len(inputs) > 1:
                raise RuntimeError("not in company")
            if action == ONCE and x not in self._raised:
                self._raised.add(x)
                raise RuntimeError("only this once")
            if action == SLOW:
                time.sleep(seconds)
        return inputs

    def postprocess(self, outputs: Any, count: int) -> Sequence[Any]:
        answers: list[float] = outputs[:, 0].tolist()
        return answers[1:] if (outputs[:, 1] == ACTIONS["short"]).any() else answers

    def example(self) -> Payload:
        return Payload(JSON, b'{"x": -1}')
