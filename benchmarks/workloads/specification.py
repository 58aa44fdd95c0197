"""What each workload sends and how it is measured. No torch in here: the harness itself stays small."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.agreement import Tolerance
from schemas.records import JPEG, NPY, TEXT

VERSION = "v1"
"""Of every model that the benchmark publishes."""
WEIGHTS, PAYLOADS, EXPECTED, MODELS = "weights.safetensors", "payloads.msgpack", "expected.json", "models"
"""What :mod:`benchmarks.workloads.prepare` writes."""


@dataclass(frozen=True)
class Workload:
    """One kind of request and the model that answers it."""

    name: str
    title: str
    task: str
    """`module:Class` of its :class:`benchmarks.workloads.task.ModelTask`."""
    content_type: str
    model_class: str
    import_path: str
    """The class that Headrace serves, as `model.classes` names it."""
    batch_size: int
    """Of everybody but the contestants as documented."""
    documented_batch_size: int
    """Of peers as their documentation has them, and of the straightforward loop."""
    ladder: tuple[int, ...]
    """Backlogs to choose from, rising: the first is that of the trial run."""
    quick_records: int
    tolerance: Tolerance
    options: Mapping[str, Any] = field(default_factory=dict)
    environment: str = ""
    """The environment with packages that the model needs; empty for the project's own."""
    has_full_field: bool = False
    """True where every contestant runs; elsewhere the core of them."""
    overlapped_lanes: int = 2
    """Forward threads of the overlapped loop."""
    settings: str = ""
    """The overlay with tuned settings of the worker."""


def _small(batch_size: int, name: str, *, full: bool) -> Workload:
    return Workload(
        name=name,
        title=f"1 kB rows (.npy) through an MLP 256-512-512-10, batch {batch_size}",
        task="benchmarks.workloads.small:SmallTask",
        content_type=NPY,
        model_class="mlp",
        import_path="examples.mlp:MlpClassifier",
        batch_size=batch_size,
        documented_batch_size=64,
        ladder=(4_000, 32_000, 96_000, 192_000, 384_000),
        quick_records=96_000,
        tolerance=Tolerance("numbers", 1e-3),
        has_full_field=full,
        overlapped_lanes=1,
        settings="small.yaml",
    )


SMALL = _small(256, "small", full=True)
SMALL64 = _small(64, "small64", full=False)
FRAMES = Workload(
    name="frames",
    title="224x224 JPEG crops of photographs through MobileNetV3-small (seeded weights), batch 16",
    task="benchmarks.workloads.frames:MobileNetTask",
    content_type=JPEG,
    model_class="mobilenet",
    import_path="examples.mobilenet:MobileNetClassifier",
    batch_size=16,
    documented_batch_size=16,
    ladder=(480, 960, 1_920, 3_840),
    quick_records=960,
    tolerance=Tolerance("top_label", 0.01),
    has_full_field=True,
    settings="frames.yaml",
)
LITE0 = Workload(
    name="lite0",
    title="224x224 JPEG crops of photographs through EfficientNet-Lite0 (ImageNet weights), batch 16",
    task="benchmarks.workloads.lite0:LiteTask",
    content_type=JPEG,
    model_class="efficientnet-lite",
    import_path="model_store.shipped.efficientnet_lite:EfficientNetLite",
    options={"variant": "lite0"},
    batch_size=16,
    documented_batch_size=16,
    ladder=(240, 480, 960),
    quick_records=480,
    tolerance=Tolerance("top_label", 0.02),
    settings="frames.yaml",
)
TEXT_WORKLOAD = Workload(
    name="text",
    title="English texts of 5 to 200 tokens through all-MiniLM-L6-v2 (its weights), batch 16",
    task="benchmarks.workloads.text:TextTask",
    content_type=TEXT,
    model_class="minilm",
    import_path="benchmarks.workloads.minilm:MiniLmEmbedding",
    batch_size=16,
    documented_batch_size=16,
    ladder=(160, 320, 640, 1_280),
    quick_records=640,
    tolerance=Tolerance("direction", 1e-3),
    environment="text",
    settings="text.yaml",
)
WORKLOADS = {workload.name: workload for workload in (SMALL, SMALL64, FRAMES, LITE0, TEXT_WORKLOAD)}
