"""EfficientNet-Lite 0, 1 and 2: ImageNet pictures in, the five likeliest classes out. Needs the extra `demo`."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from model_store.inference_model import InferenceModel
from model_store.payloads import Payload
from model_store.picture_batches import scale_pictures
from schemas.errors import ManifestError
from schemas.records import JPEG

SIDES = {"lite0": 224, "lite1": 240, "lite2": 260}
TOP = 5
_MARGIN = 32
_CENTRE, _SPREAD = [0.498 * 255] * 3, [0.502 * 255] * 3


class EfficientNetLite(InferenceModel):
    """`options.variant` is lite0, lite1 or lite2, and decides the input side: 224, 240 or 260 pixels."""

    cacheable = True

    @property
    def variant(self) -> str:
        """The member of the family. Raises ManifestError when the manifest names none."""
        variant = self.context.options.get("variant")
        if variant not in SIDES:
            raise ManifestError(f"options.variant {variant!r} is not one of {', '.join(SIDES)}")
        return str(variant)

    @property
    def side(self) -> int:
        """Height and width of the input, in pixels."""
        return SIDES[self.variant]

    def build(self) -> Any:
        """The network, without weights."""
        from efficientnet_lite_pytorch import (  # noqa: PLC0415 - extra `demo`
            EfficientNet,
        )

        return EfficientNet.from_name(f"efficientnet-{self.variant}")

    def preprocess(self, payload: Payload) -> npt.NDArray[np.uint8]:
        """Uint8 [3, side, side]: shorter edge to side + 32, then the centre cut out; a view of its pixels."""
        resized = self.side + _MARGIN
        return self.prepare(payload.image((resized, resized)))

    def prepare(self, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """What `preprocess` does after decoding; `pixels` is uint8 [height, width, 3] of any size."""
        square = _cut_centre(_resize_shorter(Image.fromarray(pixels), self.side + _MARGIN), self.side)
        return np.asarray(square).transpose(2, 0, 1)

    def forward(self, module: Any, inputs: Any) -> Any:
        """Scales the pictures to about -1..1, then runs the network."""
        return module(scale_pictures(inputs, _CENTRE, _SPREAD))

    def postprocess(self, outputs: Any, count: int) -> Sequence[Any]:  # noqa: ARG002 - part of the contract
        """The five likeliest classes of each picture, likeliest first: label, index and probability."""
        logits: npt.NDArray[np.float64] = outputs.double().numpy()
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = (weights / weights.sum(axis=1, keepdims=True)).round(6)
        best = np.argsort(-logits, axis=1, kind="stable")[:, :TOP]
        chosen = np.take_along_axis(probabilities, best, axis=1).tolist()
        return [self._describe(*pair) for pair in zip(best.tolist(), chosen, strict=True)]

    def example(self) -> Payload:
        """A grey picture of 320x320."""
        file = io.BytesIO()
        Image.new("RGB", (320, 320), (127, 127, 127)).save(file, "JPEG")
        return Payload(JPEG, file.getvalue())

    def _describe(self, indices: list[int], probabilities: list[float]) -> list[dict[str, Any]]:
        labels = self.context.labels
        return [
            {"label": labels[index] if index < len(labels) else str(index), "index": index, "probability": probability}
            for index, probability in zip(indices, probabilities, strict=True)
        ]


def _resize_shorter(picture: Image.Image, shorter: int) -> Image.Image:
    width, height = picture.size
    scale = shorter / min(width, height)
    # Whole pixels as torchvision counts them, with which these weights were checked.
    size = (shorter, int(scale * height)) if width <= height else (int(scale * width), shorter)
    return picture.resize(size, Image.Resampling.BILINEAR)


def _cut_centre(picture: Image.Image, side: int) -> Image.Image:
    left, top = round((picture.width - side) / 2), round((picture.height - side) / 2)
    return picture.crop((left, top, left + side, top + side))
