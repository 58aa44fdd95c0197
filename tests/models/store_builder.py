"""Versions of the test models in a store of their own."""

from pathlib import Path
from typing import Any

import torch

from model_store.publishing import VersionDraft, publish_state
from model_store.store import ModelStore
from model_store.torch_loader import save_state
from schemas.golden import GoldenSample

CLASSES = {
    "obedient": "tests.models.obedient:Obedient",
    "counting": "tests.models.obedient:Counting",
    "omnivore": "tests.models.omnivore:Omnivore",
    "trap": "tests.models.trap:Trap",
    "tardy": "tests.models.tardy:Tardy",
}
STATE = {"weight": torch.tensor([[2.0]]), "bias": torch.tensor([1.0])}


def publish(
    root: Path, version: str = "v1", model_class: str = "obedient", golden: GoldenSample | None = None, **options: Any
) -> None:
    """Publish a version of the model `test`, whose weights compute `2x + 1`."""
    draft = VersionDraft(name="test", version=version, model_class=model_class, options=options, golden=golden)
    publish_state(ModelStore(root), draft, STATE, save_state)
