"""The two workloads of the worker benchmark: small rows through an MLP, and camera frames through MobileNetV3-small."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import simplejpeg
import skimage.data
import torch
from PIL import Image

from examples.mlp import FEATURES, build_mlp
from examples.mobilenet import build_mobilenet
from schemas.records import JPEG, NPY


@dataclass(frozen=True)
class Workload:
    """What is sent, what answers it, and the batch size that suits it."""

    name: str
    content_type: str
    model_class: str
    import_path: str
    batch_size: int
    loop_batch_size: int
    """What the straightforward loop takes; `loop_tuned` takes the worker's."""
    records: int
    build: Callable[[], torch.nn.Module]
    payloads: Callable[[], Sequence[bytes]]
    decode: Callable[[Sequence[bytes]], torch.Tensor]
    channels_last: bool


def _npy(row: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, row)
    return buffer.getvalue()


def small_payloads() -> Sequence[bytes]:
    """Five hundred different rows of 256 float32 as .npy: 1,152 bytes each."""
    rows = np.random.default_rng(0).standard_normal((500, FEATURES), dtype=np.float32)
    return [_npy(row) for row in rows]


def decode_small(batch: Sequence[bytes]) -> torch.Tensor:
    """What a careful hand-written loop does: skip the known header and view the numbers."""
    return torch.from_numpy(np.stack([np.frombuffer(payload, np.float32, offset=128) for payload in batch]))


def frame_payloads() -> Sequence[bytes]:
    """Crops of real photographs at 224x224 as JPEG of quality 85."""
    rng = np.random.default_rng(0)
    frames = []
    for picture in (skimage.data.astronaut(), skimage.data.chelsea(), skimage.data.coffee()):
        for _ in range(20):
            top, left = (int(rng.integers(0, size - 224)) for size in picture.shape[:2])
            buffer = io.BytesIO()
            Image.fromarray(picture[top : top + 224, left : left + 224]).save(buffer, "JPEG", quality=85)
            frames.append(buffer.getvalue())
    return frames


def decode_frames(batch: Sequence[bytes]) -> torch.Tensor:
    """The fastest decoder that gives the same pixels as Pillow."""
    pixels = np.stack([simplejpeg.decode_jpeg(payload, "RGB") for payload in batch])
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float().div_(255)


SMALL = Workload(
    name="small",
    content_type=NPY,
    model_class="mlp",
    import_path="examples.mlp:MlpClassifier",
    batch_size=256,
    loop_batch_size=64,
    records=300_000,
    build=build_mlp,
    payloads=small_payloads,
    decode=decode_small,
    channels_last=False,
)
FRAMES = Workload(
    name="frames",
    content_type=JPEG,
    model_class="mobilenet",
    import_path="examples.mobilenet:MobileNetClassifier",
    batch_size=16,
    loop_batch_size=16,
    records=3_000,
    build=build_mobilenet,
    payloads=frame_payloads,
    decode=decode_frames,
    channels_last=True,
)
WORKLOADS = {workload.name: workload for workload in (SMALL, FRAMES)}
