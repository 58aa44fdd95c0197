from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from examples.mlp import MlpClassifier, build_mlp
from model_store.inference_model import InferenceModel
from model_store.loaded_model import LoadedModel
from model_store.output_encoding import encode_answers
from model_store.payloads import Payload
from model_store.torch_loader import load_model, save_state
from schemas.errors import ConfigurationError, ManifestError
from schemas.manifest import WEIGHTS_FILE, ModelManifest
from schemas.records import JSON, NPY
from tests.unit.model_store.builders import npy_of

CLASSES = {"mlp": "examples.mlp:MlpClassifier", "conv": f"{__name__}:TinyConv"}


class TinyConv(InferenceModel):
    def build(self) -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3), torch.nn.BatchNorm2d(2))


def manifest(model_class: str = "mlp", **options: Any) -> ModelManifest:
    return ModelManifest(name="m", version="v1", model_class=model_class, files=(), options=options)


def load(directory: Path, state: dict[str, Any] | None = None, described: ModelManifest | None = None) -> LoadedModel:
    save_state(build_mlp().state_dict() if state is None else state, directory / WEIGHTS_FILE)
    return load_model(directory, described or manifest(), CLASSES)


def test_the_loaded_model_answers_as_the_module_does(tmp_path: Path) -> None:
    model = load(tmp_path)
    rows = np.random.default_rng(0).standard_normal((3, 256), np.float32)
    with torch.inference_mode():
        expected = torch.softmax(build_mlp()(torch.from_numpy(rows)), -1).double().numpy().round(6)

    answers = model.run([Payload(NPY, npy_of(row)) for row in rows])

    assert answers == encode_answers(expected, "reject")


def test_json_and_npy_rows_give_one_answer(tmp_path: Path) -> None:
    model = load(tmp_path)

    from_json, from_npy = model.run([Payload(JSON, str([1] * 256).encode()), Payload(NPY, npy_of(np.ones(256, "f4")))])

    assert from_json == from_npy


@pytest.mark.parametrize(
    "row", [np.full(256, np.nan, "f4"), np.zeros(255, "f4"), np.zeros((1, 256), "f4"), np.zeros(256, "?")]
)
def test_the_example_model_refuses_what_is_not_256_finite_numbers(tmp_path: Path, row: Any) -> None:
    good, refused = load(tmp_path).run([Payload(NPY, npy_of(np.zeros(256, "f4"))), Payload(NPY, npy_of(row))])

    assert isinstance(good, bytes)
    assert not isinstance(refused, bytes)
    assert refused.code == "invalid_input"


def test_the_module_is_ready_for_inference_only(tmp_path: Path) -> None:
    model = load(tmp_path)

    assert not model.module.training
    assert not any(parameter.requires_grad for parameter in model.module.parameters())
    assert model.warm_up(4) == 5


def test_a_single_weights_file_loads_like_its_directory(tmp_path: Path) -> None:
    load(tmp_path)

    assert load_model(tmp_path / WEIGHTS_FILE, manifest(), CLASSES).warm_up(1) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("2.bias"), "'2.bias' is missing"),
        (lambda state: state.update(extra=torch.zeros(1)), "'extra' is in the file but not"),
        (lambda state: state.update({"2.bias": torch.zeros(511)}), r"'2.bias'.*\(511,\).*\(512,\)"),
        (lambda state: state.update({"2.bias": torch.zeros(512).half()}), "'2.bias'.*float16.*float32"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_key(tmp_path: Path, change: Any, message: str) -> None:
    state = dict(build_mlp().state_dict())
    change(state)

    with pytest.raises(ManifestError, match=message):
        load(tmp_path, state)


def test_a_file_that_is_no_safetensors_has_no_second_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any, **__: Any) -> None:
        raise AssertionError("a fallback was tried")

    monkeypatch.setattr(torch, "load", unreachable)
    monkeypatch.setattr(torch.jit, "load", unreachable)
    (tmp_path / WEIGHTS_FILE).write_bytes(b"\x80\x02cos\nsystem\n.")

    with pytest.raises(ManifestError, match="safetensors"):
        load_model(tmp_path, manifest(), CLASSES)


@pytest.mark.parametrize("asked", [True, False])
def test_conv_nets_run_channels_last_unless_told_otherwise(tmp_path: Path, asked: bool) -> None:
    described = manifest("conv", channels_last=asked)
    state = TinyConv.build(None).state_dict()  # type: ignore[arg-type]  # build does not look at self

    model = load(tmp_path, state, described)

    weight = model.module[0].weight
    assert weight.is_contiguous(memory_format=torch.channels_last) is asked


def test_a_device_that_is_not_there_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cuda:99"):
        load_model(tmp_path, manifest(), CLASSES, device="cuda:99")


def test_state_that_shares_memory_is_written_apart(tmp_path: Path) -> None:
    shared = torch.ones(3)

    save_state({"a": shared, "b": shared, "c": shared[:2]}, tmp_path / WEIGHTS_FILE)

    assert (tmp_path / WEIGHTS_FILE).stat().st_size > 0


def test_the_example_weights_are_the_same_everywhere() -> None:
    assert torch.equal(build_mlp()[0].weight, build_mlp()[0].weight)
    assert MlpClassifier.example(None).numbers().shape == (256,)  # type: ignore[arg-type]  # it does not look at self
