"""Camera frames: crops of real photographs as JPEG, through MobileNetV3-small."""

import io
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import simplejpeg
import torch
from PIL import Image

from benchmarks.workloads.task import ModelTask
from examples.mobilenet import build_mobilenet

SIDE = 224
_CROPS = 20
_LOGIT_SPREAD = 3.0
_MEAN = (0.485, 0.456, 0.406)
_SPREAD = (0.229, 0.224, 0.225)


class FrameTask(ModelTask):
    """JPEG frames of 224x224 to float32 [n, 3, 224, 224]; subclasses bring the network and its answers."""

    mean: tuple[float, float, float] = _MEAN
    spread: tuple[float, float, float] = _SPREAD

    def __init__(self) -> None:
        self._mean = torch.tensor(self.mean).view(1, 3, 1, 1) * 255
        self._scale = 1 / (torch.tensor(self.spread).view(1, 3, 1, 1) * 255)

    def payloads(self) -> Sequence[bytes]:
        """See :class:`ModelTask`."""
        return crop_frames()

    def decode(self, payloads: Sequence[bytes], *, is_tuned: bool) -> torch.Tensor:
        """Normalised frames; the expert's lie in memory as the decoder wrote them, channels last."""
        pictures = [self.prepare(self.read(payload, is_tuned=is_tuned)) for payload in payloads]
        pixels = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)
        if is_tuned:
            return pixels.float().sub_(self._mean).mul_(self._scale)
        return ((pixels.contiguous().float() - self._mean) * self._scale).contiguous()

    def read(self, payload: bytes, *, is_tuned: bool) -> Any:
        """One picture as uint8 [height, width, 3]. The fast decoder gives the same pixels as Pillow."""
        if is_tuned:
            return simplejpeg.decode_jpeg(payload, "RGB")
        return np.asarray(Image.open(io.BytesIO(payload)).convert("RGB"))

    def prepare(self, picture: Any) -> Any:
        """Cut or scale a picture to the side of the network."""
        return picture

    def arrange(self, module: torch.nn.Module) -> torch.nn.Module:
        """See :class:`ModelTask`."""
        return module.to(memory_format=torch.channels_last)


class MobileNetTask(FrameTask):
    """Answers the likeliest class and its probability."""

    def build(self) -> torch.nn.Module:
        """See :class:`ModelTask`."""
        return build_mobilenet()

    def state(self) -> dict[str, torch.Tensor]:
        """Seeded weights, with batch statistics of these frames and logits scaled to differ between them.

        An untrained network gives all frames nearly the same answer, and comparing answers would compare nothing.
        """
        module: Any = self.build().train()
        frames = self.decode(self.payloads(), is_tuned=False)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            # A momentum of 1 takes the statistics of this one pass; the network's own would need hundreds of them.
            for part in module.modules():
                if isinstance(part, torch.nn.BatchNorm2d):
                    part.momentum = 1.0
            module(frames)
            logits = module.eval()(frames)
            scale, last = _LOGIT_SPREAD / logits.std(dim=0).mean(), module.classifier[-1]
            last.bias.copy_((last.bias - logits.mean(dim=0)) * scale)
            last.weight.mul_(scale)
        state: dict[str, torch.Tensor] = module.state_dict()
        return state

    def encode(self, outputs: torch.Tensor, *, is_tuned: bool) -> list[bytes]:
        """`{"label", "probability"}`; the label is the index, since these weights know no names."""
        best, index = torch.softmax(outputs, dim=-1).max(dim=-1)
        answers = [
            {"label": str(label), "probability": round(probability, 6)}
            for label, probability in zip(index.tolist(), best.tolist(), strict=True)
        ]
        return [msgspec.json.encode(answer) if is_tuned else json.dumps(answer).encode() for answer in answers]


def crop_frames() -> list[bytes]:
    """Sixty crops of three photographs at 224x224, as JPEG of quality 85: 5 to 25 kB each."""
    import skimage.data  # noqa: PLC0415 - only where frames are made

    generator = np.random.default_rng(0)
    frames = []
    photographs: Any = skimage.data
    for picture in (photographs.astronaut(), photographs.chelsea(), photographs.coffee()):
        for _ in range(_CROPS):
            top, left = (int(generator.integers(0, size - SIDE)) for size in picture.shape[:2])
            buffer = io.BytesIO()
            Image.fromarray(picture[top : top + SIDE, left : left + SIDE]).save(buffer, "JPEG", quality=85)
            frames.append(buffer.getvalue())
    return frames
