from pathlib import Path
from typing import Any

import pytest

from model_store.inference_model import InferenceModel
from schemas.manifest import FileEntry, ModelManifest
from schemas.settings import LimitSettings
from stream_workers.batching.work import ServedVersion
from stream_workers.links.messages import LoadOrder
from stream_workers.pipeline import answer_identity as module
from stream_workers.pipeline.answer_identity import MAKES_NO_DIFFERENCE, answer_identity
from tests.unit.stream_workers.builders import load_order


class Declared(InferenceModel):
    cacheable = True


class AlsoDeclared(InferenceModel):
    cacheable = True


def manifest(sha256: str = "0" * 64, **varied: Any) -> ModelManifest:
    files = (FileEntry(name="weights.safetensors", size=1, sha256=sha256),)
    return ModelManifest(**{"name": "m", "version": "v1", "model_class": "c", "files": files, **varied})


BASE = answer_identity(load_order(), manifest(), Declared)


def test_a_class_that_does_not_declare_it_has_none() -> None:
    assert answer_identity(load_order(), manifest(), InferenceModel) == b""


def test_it_is_the_same_wherever_the_same_is_served() -> None:
    assert len(BASE) == 32
    moved = load_order(store_root="/elsewhere", cache_dir="/c", cache_bytes=2, slots=3, slot_bytes=9, max_batch_size=64)
    assert answer_identity(moved, manifest(), Declared) == BASE
    assert answer_identity(load_order(version=ServedVersion("m", "v1", 9)), manifest(), Declared) == BASE


@pytest.mark.parametrize(
    "varied",
    [
        {"version": "v2"},
        {"name": "other"},
        {"sha256": "1" * 64},
        {"options": {"mean": 0.5}},
        {"labels": ("cat",)},
        {"model_class": "d"},
        {"precision": "bf16"},
        {"precision": "mixed", "precision_plan": {"head": "bf16"}},
        {"activation_ranges": {"head": (0, 1)}},
    ],
)
def test_whatever_differs_in_the_manifest_makes_another(varied: dict[str, Any]) -> None:
    assert answer_identity(load_order(), manifest(**varied), Declared) != BASE


@pytest.mark.parametrize(
    "varied",
    [
        {"device": "cuda:0"},
        {"threads": 2},
        {"non_finite": "allow"},
        {"limits": LimitSettings(pixels=5).model_dump_json().encode()},
    ],
)
def test_whatever_an_order_says_of_how_to_run_makes_another(varied: dict[str, Any]) -> None:
    assert answer_identity(load_order(**varied), manifest(), Declared) != BASE


def test_a_field_that_is_added_to_the_order_counts_until_it_is_listed() -> None:
    assert set(MAKES_NO_DIFFERENCE) < set(LoadOrder.__struct_fields__)


def test_another_class_makes_another() -> None:
    assert answer_identity(load_order(), manifest(), AlsoDeclared) != BASE


def test_changed_code_of_the_class_makes_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = tmp_path / "theirs.py"
    code.write_text(
        "from model_store.inference_model import InferenceModel\nclass Theirs(InferenceModel):\n    cacheable = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    from theirs import Theirs  # type: ignore[import-not-found]  # noqa: PLC0415 - made above

    before = answer_identity(load_order(), manifest(), Theirs)
    code.write_text(code.read_text() + "# another\n")
    assert answer_identity(load_order(), manifest(), Theirs) != before
    code.unlink()
    assert answer_identity(load_order(), manifest(), Theirs) not in (before, b"")


def test_another_release_of_what_is_underneath_makes_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_version_of", lambda name: "99" if name == "torch" else "1")
    other = answer_identity(load_order(), manifest(), Declared)
    monkeypatch.setattr(module, "_version_of", lambda _: "1")
    assert answer_identity(load_order(), manifest(), Declared) != other
