"""Camera frames through EfficientNet-Lite0 with the ImageNet weights of its package."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import torch
from PIL import Image

from benchmarks.workloads.frames import SIDE, FrameTask
from model_store.legacy_archive import read_pinned_archive
from model_store.shipped.demo_weights import PINNED, locate_weights, read_labels

_SHORTER = 256
_TOP = 5


class LiteTask(FrameTask):
    """Answers the five likeliest classes."""

    mean = (0.498, 0.498, 0.498)
    spread = (0.502, 0.502, 0.502)

    def __init__(self) -> None:
        super().__init__()
        self._labels = read_labels()

    def build(self) -> torch.nn.Module:
        """See :class:`ModelTask`."""
        from efficientnet_lite_pytorch import (  # noqa: PLC0415 - extra `demo`
            EfficientNet,
        )

        module: torch.nn.Module = EfficientNet.from_name("efficientnet-lite0")
        return module

    def state(self) -> dict[str, torch.Tensor]:
        """See :class:`ModelTask`."""
        pinned = PINNED["lite0"]
        arrays = read_pinned_archive(locate_weights(pinned), pinned.sha256)
        return {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}

    def labels(self) -> tuple[str, ...]:
        """See :class:`ModelTask`."""
        return self._labels

    def prepare(self, picture: Any) -> Any:
        """The shorter edge to 256, the centre of 224: as the weights were trained."""
        margin = (_SHORTER - SIDE) // 2
        scaled = Image.fromarray(picture).resize((_SHORTER, _SHORTER), Image.Resampling.BILINEAR)
        return np.asarray(scaled.crop((margin, margin, margin + SIDE, margin + SIDE)))

    def encode(self, outputs: torch.Tensor, *, is_tuned: bool) -> list[bytes]:
        """`[{"label", "index", "probability"}, ...]`, the likeliest first."""
        best, indices = torch.softmax(outputs, dim=-1).topk(_TOP, dim=-1)
        answers = [self._describe(*row) for row in zip(indices.tolist(), best.tolist(), strict=True)]
        return [msgspec.json.encode(answer) if is_tuned else json.dumps(answer).encode() for answer in answers]

    def _describe(self, indices: Sequence[int], probabilities: Sequence[float]) -> list[dict[str, Any]]:
        return [
            {"label": self._labels[index], "index": index, "probability": round(probability, 6)}
            for index, probability in zip(indices, probabilities, strict=True)
        ]
