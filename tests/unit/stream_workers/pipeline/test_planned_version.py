"""A version with a precision plan, loaded as a model process loads it: it answers, and its answers are its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from examples.mlp import build_mlp
from model_store.payloads import Payload
from model_store.precision_plan import FP32, PrecisionPlan
from model_store.precision_torch import runnable_precisions
from model_store.publishing import VersionDraft, publish_state
from model_store.store import ModelStore, ResolvedVersion
from model_store.torch_loader import load_model, save_state
from schemas.errors import ManifestError
from schemas.records import NPY
from stream_workers.batching.work import ServedVersion
from stream_workers.pipeline.model_loading import WarmModel, load_warm
from tests.unit.model_store.builders import npy_of
from tests.unit.stream_workers.builders import load_order

RANGES = {"0": (-5.0, 5.0), "2": (0.0, 3.0), "4": (0.0, 3.0)}
BF16 = PrecisionPlan("bf16")
MIXED = PrecisionPlan("mixed", {"0": "bf16", "2": "int8"}, RANGES)

needs_both = pytest.mark.skipif(
    not {"bf16", "int8"} <= set(runnable_precisions("cpu")), reason="this CPU has not both bf16 and int8"
)


CLASSES = {"mlp": "examples.mlp:MlpClassifier"}


def publish(store: ModelStore, version: str, plan: PrecisionPlan) -> ResolvedVersion:
    draft = VersionDraft("m", version, "mlp", precision=plan)
    return publish_state(store, draft, build_mlp().state_dict(), save_state)


@contextmanager
def warm(tmp_path: Path, version: str, plan: PrecisionPlan) -> Iterator[WarmModel]:
    """A version as the model process of a worker has it: published, ordered, fetched through the cache, warmed up."""
    store = ModelStore(tmp_path / "store")
    publish(store, version, plan)
    order = load_order(
        version=ServedVersion("m", version, 1),
        store_root=str(store.root),
        cache_dir=str(tmp_path / "cache"),
        cache_bytes=1 << 30,
        classes=CLASSES,
        slot_bytes=1 << 16,
    )
    loaded = load_warm(order)
    try:
        yield loaded
    finally:
        # A process ends with its model; this one goes on.
        loaded._weights.close()


def answer(loaded: WarmModel, records: int = 3) -> Any:
    rows = np.random.default_rng(0).standard_normal((records, 256), np.float32)
    answers = loaded.model.run([Payload(NPY, npy_of(row)) for row in rows])
    return np.array([msgspec.json.decode(one) for one in answers])


@needs_both
def test_a_mixed_version_is_served_and_answers_nearly_as_float32_does(tmp_path: Path) -> None:
    with warm(tmp_path, "v1", FP32) as exact, warm(tmp_path, "v1-mixed", MIXED) as mixed:
        assert mixed.warmed > 0
        assert mixed.model.module[0].weight.dtype == torch.bfloat16
        assert mixed.model.module[4].weight.dtype == torch.float32
        assert 0 < np.abs(answer(mixed) - answer(exact)).max() < 0.01


@needs_both
def test_versions_that_differ_in_their_plan_alone_have_identities_of_their_own(tmp_path: Path) -> None:
    identities = set()
    plans = [FP32, BF16, MIXED, PrecisionPlan("mixed", {"0": "bf16"})]
    for number, plan in enumerate(plans):
        # Each in a store of its own, so that they have the same name too.
        with warm(tmp_path / str(number), "v1", plan) as loaded:
            identities.add(loaded.answer_identity)

    assert len(identities) == len(plans)


@needs_both
@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (PrecisionPlan("mixed", {"9": "bf16"}), r"precision_plan\.9: bf16: the network has no module"),
        (PrecisionPlan("mixed", {"1": "int8"}), r"precision_plan\.1: int8: nothing in it can be quantised"),
        (PrecisionPlan("mixed", {"0": "int8"}), r"activation_ranges\.0 is missing"),
    ],
)
def test_a_plan_that_does_not_fit_fails_the_load_by_name(tmp_path: Path, plan: PrecisionPlan, said: str) -> None:
    version = publish(ModelStore(tmp_path), "v1", plan)

    with pytest.raises(ManifestError, match=said):
        load_model(version.directory, version.manifest, CLASSES)
