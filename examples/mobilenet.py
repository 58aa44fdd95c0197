"""Frames through MobileNetV3-small from torchvision. Register it as `examples.mobilenet:MobileNetClassifier`."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from model_store.inference_model import InferenceModel
from model_store.payloads import Payload
from model_store.picture_batches import scale_pictures
from schemas.records import JPEG

SIDE = 224
_CENTRE = [255 * part for part in (0.485, 0.456, 0.406)]
_SPREAD = [255 * part for part in (0.229, 0.224, 0.225)]


def build_mobilenet(seed: int = 0) -> torch.nn.Module:
    """Return the network with weights drawn from `seed`: the same on every host, and trained on nothing."""
    from torchvision.models import mobilenet_v3_small

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module: torch.nn.Module = mobilenet_v3_small(weights=None)
        return module


class MobileNetClassifier(InferenceModel):
    """Takes a JPEG or PNG frame; answers the class with the largest score, and its probability."""

    cacheable = True

    def build(self) -> torch.nn.Module:
        """See :class:`InferenceModel`."""
        return build_mobilenet()

    def preprocess(self, payload: Payload) -> npt.NDArray[np.uint8]:
        """Returns uint8 [3, 224, 224], the frame squeezed to the square; a view of its pixels, which are not moved."""
        picture = payload.image((SIDE, SIDE))
        if picture.shape[:2] != (SIDE, SIDE):
            picture = np.asarray(Image.fromarray(picture).resize((SIDE, SIDE), Image.Resampling.BILINEAR))
        return picture.transpose(2, 0, 1)

    def forward(self, module: Any, inputs: Any) -> Any:
        """Scales the frames as ImageNet's networks expect them, then runs the network."""
        return module(scale_pictures(inputs, _CENTRE, _SPREAD))

    def postprocess(self, outputs: torch.Tensor, count: int) -> Sequence[Any]:
        """One {"label", "probability"} per frame; without labels in the manifest the label is the index."""
        best, index = torch.softmax(outputs, dim=-1).max(dim=-1)
        names = self.context.labels
        return [
            {"label": names[i] if i < len(names) else str(i), "probability": round(p, 6)}
            for i, p in zip(index.tolist(), best.tolist(), strict=True)
        ]

    def example(self) -> Payload:
        """A grey frame of 640x480."""
        file = io.BytesIO()
        Image.new("RGB", (640, 480), (128, 128, 128)).save(file, "JPEG")
        return Payload(JPEG, file.getvalue())
