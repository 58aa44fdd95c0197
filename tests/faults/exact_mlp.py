"""A network whose answers do not depend on the size of a batch, so that a replay can be compared byte for byte.

Weights are whole numbers, inputs multiples of a half and the last layer is scaled by a power of two: every partial sum
is a float32 exactly, in whatever order a kernel adds up.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from examples.mlp import CLASSES, FEATURES, MlpClassifier
from model_store.publishing import VersionDraft, publish_state
from model_store.store import ModelStore
from model_store.torch_loader import save_state

CLASS = "exact-mlp"
LARGEST_WEIGHT, LARGEST_BIAS = 1, 8
WIDTHS = {"mlp": 512, "100mb": 4864}
"""Of both hidden layers: 1.6 and 99.9 MB of float32."""
SCALES = {"mlp": 2.0**-13, "100mb": 2.0**-17}
"""Of the last layer: logits of about 1."""


class ExactMlp(MlpClassifier):
    """`options.width` of the hidden layers; answers as its parent, and is never cached: each record meets the model."""

    cacheable = False

    def build(self) -> torch.nn.Module:
        return build(int(self.context.options["width"]), "meta")

    def postprocess(self, outputs: torch.Tensor, count: int) -> Sequence[Any]:
        # One row at a time: a vectorised exponential may treat the end of an array in another way than its middle.
        return [torch.softmax(row.double(), dim=-1).numpy().round(6) for row in outputs]


def build(width: int, device: str) -> torch.nn.Module:
    """256 numbers, two hidden layers, ten logits."""
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, width, device=device),
        torch.nn.ReLU(),
        torch.nn.Linear(width, width, device=device),
        torch.nn.ReLU(),
        torch.nn.Linear(width, CLASSES, device=device),
    )


def publish(root: Path, model: str, version: str, seed: int) -> None:
    """Publish a version of `mlp` or `100mb` with weights drawn from `seed`, unless it is there."""
    store = ModelStore(root)
    if store.contains(model, version):
        return
    module, generator = build(WIDTHS[model], "cpu"), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in module.named_parameters():
            largest = LARGEST_WEIGHT if name.endswith("weight") else LARGEST_BIAS
            tensor.copy_(torch.randint(-largest, largest + 1, tensor.shape, generator=generator))
            if name.startswith("4."):
                tensor.mul_(SCALES[model])
    draft = VersionDraft(model, version, CLASS, options={"width": WIDTHS[model]})
    publish_state(store, draft, module.state_dict(), save_state)
