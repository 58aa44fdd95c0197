"""Programs from torch.export: published as data, served without their author's code, refused when not sound."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from torch import nn
from torch.export import Dim, export

from model_store.exported.graph import METADATA_KEY, decode_graph
from model_store.exported.program_module import ProgramModule
from model_store.inference_model import InferenceModel
from model_store.payloads import Payload
from model_store.publishing import VersionDraft
from model_store.store import ModelStore
from model_store.torch_loader import load_model
from model_store.torch_publishing import publish_module, publish_program
from schemas.errors import ManifestError, UnsupportedProgramError
from schemas.records import JSON, NPY
from tests.unit.model_store.builders import npy_of

DRAFT = VersionDraft("m", "v1", "exported")


class Network(nn.Module):
    """A little of everything: convolution, normalisation, a write into its own result, sizes, several results."""

    def __init__(self) -> None:
        super().__init__()
        self.convolve = nn.Conv2d(3, 4, 3)
        self.normalise = nn.BatchNorm2d(4)
        self.answer = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 5), nn.Hardswish(inplace=True))
        self.register_buffer("shift", torch.arange(4.0), persistent=False)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        maps = torch.relu_(self.normalise(self.convolve(pictures))) + self.shift[None, :, None, None]
        first, second = maps.flatten(2).topk(2).values.unbind(2)
        joined = torch.cat([first, second], 1).view(pictures.shape[0], -1)
        scores: torch.Tensor = self.answer(joined)
        return scores


class NetworkModel(InferenceModel):
    def build(self) -> nn.Module:
        return Network()


class TwoInputs(nn.Module):
    def forward(self, ids: torch.Tensor, weights: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"sum": ids.float() + weights, "largest": torch.maximum(ids.float(), weights).amax(1)}


def program_of(module: nn.Module, *example: torch.Tensor) -> Any:
    return export(module.eval(), example, dynamic_shapes=tuple({0: Dim.AUTO} for _ in example))


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models")


def load(store: ModelStore) -> Any:
    version = store.verify("m", "v1")
    return load_model(version.directory, version.manifest, {})


@pytest.fixture
def network() -> nn.Module:
    torch.manual_seed(0)
    return Network().eval()


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_program_answers_as_its_module_does_at_any_batch_size(
    store: ModelStore, network: nn.Module, count: int
) -> None:
    publish_program(store, DRAFT, program_of(network, torch.randn(2, 3, 6, 6)))
    pictures = torch.randn(count, 3, 6, 6)

    answers = load(store).run([Payload(NPY, npy_of(picture.numpy())) for picture in pictures])

    expected = network(pictures).detach().numpy()
    np.testing.assert_allclose([json.loads(answer) for answer in answers], expected, rtol=1e-5, atol=1e-6)


def test_a_program_warms_up_with_an_example_of_its_own(store: ModelStore, network: nn.Module) -> None:
    publish_program(store, DRAFT, program_of(network, torch.randn(2, 3, 6, 6)))

    assert load(store).warm_up(4) == 5


def test_several_inputs_come_as_tensors_by_name_and_several_outputs_go_by_theirs(store: ModelStore) -> None:
    from safetensors.numpy import save  # noqa: PLC0415 - for this test

    publish_program(store, DRAFT, program_of(TwoInputs(), torch.zeros(2, 3, dtype=torch.int64), torch.zeros(2, 3)))
    model = load(store)
    record = save({"ids": np.array([1, 2, 3]), "weights": np.array([0.5, 4, 1], np.float32)})

    (answer,) = model.run([Payload("application/x-safetensors", record)])

    assert json.loads(answer) == {"sum": [1.5, 6.0, 4.0], "largest": 4.0}


@pytest.mark.parametrize("record", [b"[1]", b"[[1,2],[3,4]]", b"{}", b'"x"', b"[[[[1]]]]"])
def test_a_record_of_another_shape_is_refused_alone(store: ModelStore, network: nn.Module, record: bytes) -> None:
    publish_program(store, DRAFT, program_of(network, torch.randn(2, 3, 6, 6)))
    good = Payload(NPY, npy_of(np.zeros((3, 6, 6), np.float32)))

    first, second = load(store).run([Payload(JSON, record), good])

    assert not isinstance(first, bytes)
    assert isinstance(second, bytes)


class DrawsNumbers(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)


class ChangesState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x + self.calls


class Inverts(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x)


@pytest.mark.parametrize(
    ("module", "shape", "reason"),
    [
        (DrawsNumbers(), (2, 4), "rand_like"),
        (ChangesState(), (2, 1), r"model\.eval"),
        (Inverts(), (2, 4, 4), "linalg_inv"),
    ],
)
def test_what_cannot_be_stored_as_data_is_refused_and_named(
    store: ModelStore, module: nn.Module, shape: tuple[int, ...], reason: str
) -> None:
    with pytest.raises(UnsupportedProgramError, match=reason):
        publish_program(store, DRAFT, program_of(module, torch.zeros(shape)))
    assert store.list_versions() == []


def test_a_program_with_a_fixed_batch_is_refused(store: ModelStore, network: nn.Module) -> None:
    with pytest.raises(UnsupportedProgramError, match="dynamic_shapes"):
        publish_program(store, DRAFT, export(network, (torch.randn(2, 3, 6, 6),)))


def test_a_program_in_training_is_refused(store: ModelStore) -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()

    with pytest.raises(UnsupportedProgramError):
        publish_program(store, DRAFT, export(module, (torch.zeros(2, 4),), dynamic_shapes=({0: Dim.AUTO},)))


def test_weights_without_a_program_are_refused_by_the_class(store: ModelStore) -> None:
    publish_module(store, VersionDraft("m", "v1", "plain"), Network(), {"plain": f"{__name__}:NetworkModel"})
    version = store.resolve("m", "v1")

    with pytest.raises(ManifestError, match="carry no program"):
        load_model(version.directory, version.manifest.model_copy(update={"model_class": "exported"}), {})


@pytest.fixture(scope="module")
def sound_graph(tmp_path_factory: pytest.TempPathFactory) -> str:
    store = ModelStore(tmp_path_factory.mktemp("models"))
    version = publish_program(store, DRAFT, program_of(Network(), torch.randn(2, 3, 6, 6)))
    with safe_open(store.directory_of(version.name, version.version) / "weights.safetensors", framework="np") as file:
        return str(file.metadata()[METADATA_KEY])


HOSTILE: dict[str, Callable[[dict[str, Any]], object]] = {
    "another library": lambda g: g["nodes"][0].update(operator="os.system"),
    "a loader": lambda g: g["nodes"][0].update(operator="torch.load"),
    "an operator that reads files": lambda g: g["nodes"][0].update(operator="aten.from_file.default"),
    "an operator with free strides": lambda g: g["nodes"][0].update(operator="aten.as_strided.default"),
    "an operator that writes": lambda g: g["nodes"][0].update(operator="aten.add_.Tensor"),
    "a variant that writes": lambda g: g["nodes"][0].update(operator="aten.add.out"),
    "an attribute that is no operator": lambda g: g["nodes"][0].update(operator="aten.add.__class__"),
    "a longer path": lambda g: g["nodes"][0].update(operator="aten.add.Tensor.__globals__"),
    "a text that is no word": lambda g: g["nodes"][0]["arguments"].append("__import__('os').system('id')"),
    "a size that is an expression": lambda g: g["inputs"][0].update(shape=["s0*2", 3]),
    "a result of nothing": lambda g: g["nodes"][0]["arguments"].append({"node": "nobody"}),
    "a result of a later call": lambda g: g["nodes"][0]["arguments"].append({"node": g["nodes"][-1]["name"]}),
    "an unknown kind of argument": lambda g: g["nodes"][0]["arguments"].append({"global": "os"}),
    "two kinds in one": lambda g: g["nodes"][0]["arguments"].append({"dtype": "float32", "node": "x"}),
    "an attribute for a dtype": lambda g: g["nodes"][0]["arguments"].append({"dtype": "load"}),
    "an attribute for a layout": lambda g: g["nodes"][0]["arguments"].append({"memory_format": "hub"}),
    "a name that is none": lambda g: g["nodes"][0].update(name="a.b"),
    "a name given twice": lambda g: g["nodes"][0].update(name=g["nodes"][1]["name"]),
    "a name that hides a weight": lambda g: g["nodes"][0].update(name=g["weights"][0]["name"]),
    "an argument named like code": lambda g: g["nodes"][0].update(named={"x) or (1": 1}),
    "nesting without end": lambda g: g["nodes"][0]["arguments"].append([[[[[[[[1]]]]]]]]),
    "a longer list than any": lambda g: g["nodes"][0]["arguments"].append([1] * 5000),
    "another format": lambda g: g.update(format=2),
    "an unknown field": lambda g: g.update(code="import os"),
    "no output": lambda g: g.update(outputs={}),
    "an output that is not there": lambda g: g.update(outputs={"": "nobody"}),
    "training": lambda g: g["nodes"][0].update(
        operator="aten.dropout.default", arguments=[{"node": "pictures"}, 0.5, True]
    ),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_a_stored_program_that_is_not_sound_is_refused_before_anything_runs(
    sound_graph: str, change: Callable[[dict[str, Any]], object]
) -> None:
    graph = json.loads(sound_graph)
    assert ProgramModule(decode_graph(json.dumps(graph)))
    change(graph)

    with pytest.raises(UnsupportedProgramError):
        ProgramModule(decode_graph(json.dumps(graph)))


@given(st.text() | st.binary().map(lambda data: data.decode("latin1")))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedProgramError):
        decode_graph(text)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.fixed_dictionaries({"name": JSON_VALUES, "operator": JSON_VALUES, "arguments": JSON_VALUES}))
def test_a_call_of_anything_is_refused_or_sound(node: dict[str, Any]) -> None:
    form = {"name": "x", "dtype": "float32", "shape": [None]}
    graph = {"inputs": [form], "weights": [], "nodes": [node], "outputs": {"": "x"}}
    try:
        decoded = decode_graph(msgspec.json.encode(graph).decode())
    except UnsupportedProgramError:
        return
    assert decoded.nodes[0].operator.startswith(("aten.", "int."))


def test_a_module_that_does_not_fit_its_class_is_refused_before_anything_is_written(store: ModelStore) -> None:
    classes = {"plain": f"{__name__}:NetworkModel"}
    other = Network()
    other.answer[1] = nn.Linear(8, 6)
    missing = nn.Linear(8, 5)

    for module, reason in ((other, "the model class needs"), (missing, "missing")):
        with pytest.raises(ManifestError, match=reason):
            publish_module(store, VersionDraft("m", "v1", "plain"), module, classes)
    assert store.list_versions() == []
