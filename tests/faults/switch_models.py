"""What a soak of switches serves: versions whose answers differ, and requests that repeat, so that answers can be held
against each other.
"""

import functools
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.records import JPEG, JSON
from tests.faults.load import numbers_row

ROWS = 10
"""`numbers_row` repeats after so many."""


@dataclass(frozen=True)
class ServedModel:
    """One model under test. Payload n of the load is `payloads[n % len(payloads)]`."""

    name: str
    versions: tuple[str, ...]
    publish: Callable[[Path], None]
    payloads: Sequence[bytes]
    content_type: str
    batching: dict[str, Any]
    classes: dict[str, str] = field(default_factory=dict)
    rate: float | None = None
    """Requests a second where the capacity is beyond what one Python process sends; None: measured."""

    def payload(self, number: int) -> bytes:
        """The body of the nth request."""
        return self.payloads[number % len(self.payloads)]


def serve_mlp(name: str, rate: float | None = None) -> ServedModel:
    """Two versions of the exact network of that name."""

    def publish_both(root: Path) -> None:
        from tests.faults.exact_mlp import publish  # noqa: PLC0415 - torch, only where versions are made

        for seed, version in enumerate(("v1", "v2")):
            publish(root, name, version, seed)

    return ServedModel(
        name,
        ("v1", "v2"),
        publish_both,
        [numbers_row(number) for number in range(ROWS)],
        JSON,
        {"max_batch_size": 16},
        {"exact-mlp": "tests.faults.exact_mlp:ExactMlp"},
        rate,
    )


def serve_lite() -> ServedModel:
    """EfficientNet-Lite 0, 1 and 2 on pictures.

    Every batch is padded to one size: a convolution picks its algorithm by that size, and with it the order in which it
    adds up. At one size an answer does not depend on its company in the batch.
    """

    def publish_all(root: Path) -> None:
        from model_store.shipped.demo_weights import publish_demo  # noqa: PLC0415 - as above
        from model_store.store import ModelStore  # noqa: PLC0415 - as above

        for _ in publish_demo(ModelStore(root)):
            pass

    versions = ("lite0", "lite1", "lite2")
    return ServedModel(
        "imagenet", versions, publish_all, draw_pictures(), JPEG, {"max_batch_size": 8, "size_buckets": [8]}
    )


def draw_pictures(count: int = 12, side: int = 224) -> list[bytes]:
    """Crops of photographs as JPEG."""
    import skimage.data  # noqa: PLC0415 - extra `demo`
    from PIL import Image  # noqa: PLC0415 - as above

    drawn = []
    for number in range(count):
        picture = (skimage.data.astronaut, skimage.data.chelsea, skimage.data.coffee)[number % 3]()
        top, left = 5 * number, 15 * number
        buffer = io.BytesIO()
        Image.fromarray(picture[top : top + side, left : left + side]).save(buffer, "JPEG", quality=90)
        drawn.append(buffer.getvalue())
    return drawn


MODELS: dict[str, Callable[[], ServedModel]] = {
    "mlp": functools.partial(serve_mlp, "mlp", 300.0),
    "100mb": functools.partial(serve_mlp, "100mb"),
    "lite": serve_lite,
}
"""What `--model` may be."""
