"""`model.compile` with a tiny module and the real compiler."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import _dynamo as dynamo
from torch._inductor import config as inductor

from model_store.batch_inputs import BatchPlan
from model_store.inference_model import InferenceModel, ModelContext
from model_store.loaded_model import LoadedModel
from model_store.payloads import Payload
from model_store.torch_loader import TorchRuntime
from schemas.errors import ConfigurationError
from schemas.records import JSON
from stream_workers.pipeline.compiled_model import compile_warm

BUCKETS = (1, 2, 4)
needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None and shutil.which("c++") is None, reason="torch.compile on the CPU needs a C++ compiler"
)


class Tiny(InferenceModel):
    """Three numbers in, their sum with weights of one out."""

    def build(self) -> torch.nn.Module:
        module = torch.nn.Linear(3, 1, bias=False)
        torch.nn.init.ones_(module.weight)
        return module

    def postprocess(self, outputs: Any, count: int) -> Any:
        return outputs[:, 0].tolist()

    def example(self) -> Payload | None:
        return Payload(JSON, b"[1, 2, 3]")


@pytest.fixture(autouse=True)
def fresh_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")
    limit = dynamo.config.recompile_limit
    dynamo.reset()
    yield
    torch.compiler.set_stance("default")
    dynamo.config.recompile_limit = limit
    dynamo.reset()


def load(model_class: type[InferenceModel] = Tiny) -> LoadedModel:
    model = model_class(ModelContext())
    module = model.build().eval().requires_grad_(False)
    loaded = LoadedModel(model, module, TorchRuntime("cpu", channels_last=False))
    loaded.use_plan(BatchPlan(4, BUCKETS))
    return loaded


def rows(count: int, width: int = 3) -> list[Payload]:
    return [Payload(JSON, str([n] * width).encode()) for n in range(count)]


@needs_compiler
def test_every_bucket_is_compiled_at_load_and_nothing_afterwards(tmp_path: Path) -> None:
    model, plain = load(), load()

    assert compile_warm(model, BUCKETS, "cpu", tmp_path) == 1 + sum(BUCKETS)

    compiled = dynamo.utils.counters["stats"]["unique_graphs"]
    assert compiled == len(BUCKETS)
    for count in (1, 2, 3, 4):
        assert model.run(rows(count)) == plain.run(rows(count))
    assert dynamo.utils.counters["stats"]["unique_graphs"] == compiled


@needs_compiler
def test_a_shape_that_was_not_compiled_runs_as_it_is_written(tmp_path: Path) -> None:
    class Summing(Tiny):
        def build(self) -> torch.nn.Module:
            return torch.nn.Softmax(dim=1)

    model, plain = load(Summing), load(Summing)
    compile_warm(model, BUCKETS, "cpu", tmp_path)
    compiled = dynamo.utils.counters["stats"]["unique_graphs"]

    for width in range(2, 30):
        assert model.run(rows(2, width)) == plain.run(rows(2, width))

    assert dynamo.utils.counters["stats"]["unique_graphs"] == compiled


def test_what_cannot_be_compiled_is_refused_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inductor.cpp, "cxx", (None, str(tmp_path / "no-compiler")))
    model = load()
    assert model.warm_up(1)

    with pytest.raises(ConfigurationError, match=r"model\.compile: this version cannot be compiled.*InductorError"):
        compile_warm(model, BUCKETS, "cpu", tmp_path)


def test_a_model_without_an_example_cannot_be_compiled_before_it_serves(tmp_path: Path) -> None:
    silent = type("Silent", (Tiny,), {"example": lambda _: None})

    with pytest.raises(ConfigurationError, match="example"):
        compile_warm(load(silent), BUCKETS, "cpu", tmp_path)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda_graphs_of_every_bucket_answer_as_the_module_does(tmp_path: Path) -> None:
    model = LoadedModel(Tiny(ModelContext()), Tiny(ModelContext()).build().cuda().eval(), TorchRuntime("cuda", False))
    model.use_plan(BatchPlan(4, BUCKETS))

    compile_warm(model, BUCKETS, "cuda", tmp_path)

    for _ in range(2):
        for count in (1, 3, 4):
            assert np.allclose([float(answer) for answer in model.run(rows(count))], [3 * n for n in range(count)])  # type: ignore[arg-type]  # bytes
