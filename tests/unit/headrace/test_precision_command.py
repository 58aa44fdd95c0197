"""`headrace precision` on the example network: measured, published, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pytest

from headrace.cli import main
from headrace.cli.exit_codes import ExitCode
from model_store.publishing import VersionDraft, publish_state
from model_store.store import ModelStore
from model_store.torch_loader import save_state


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    from examples.mlp import build_mlp  # noqa: PLC0415 - torch, for these tests only

    made = ModelStore(tmp_path / "models")
    publish_state(made, VersionDraft("m", "v1", "mlp", labels=("cat",)), build_mlp().state_dict(), save_state)
    return made


@pytest.fixture
def config(tmp_path: Path, store: ModelStore) -> str:
    path = tmp_path / "headrace.yaml"
    path.write_text(
        f"store: {{root: {store.root}, cache_dir: cache}}\nmodel: {{classes: {{mlp: 'examples.mlp:MlpClassifier'}}}}\n"
    )
    return str(path)


@pytest.fixture
def rows(tmp_path: Path) -> str:
    path = tmp_path / "rows.npy"
    np.save(path, np.random.default_rng(0).standard_normal((40, 256), np.float32))
    return str(path)


def run_bf16(config: str, rows: str, *more: str) -> int:
    return main(["precision", "m@v1", "--data", rows, "--precisions", "bf16", "--config", config, *more])


def needs_bf16() -> None:
    from model_store.precision_torch import runnable_precisions  # noqa: PLC0415 - torch

    if "bf16" not in runnable_precisions("cpu"):
        pytest.skip("this CPU has no bf16")


def test_a_plan_is_measured_shown_and_published_beside_the_version_it_was_made_from(
    config: str, rows: str, store: ModelStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needs_bf16()
    before = store.verify("m", "v1").manifest

    code = run_bf16(
        config, rows, "--budget", "0.5", "--even-if-slower", "--publish", "v1-small", "--json", str(tmp_path / "found")
    )

    assert code == ExitCode.OK
    said = capsys.readouterr()
    assert "top-1 agreement" in said.out
    assert "MB (" in said.out
    assert "reading samples" in said.err
    made = store.verify("m", "v1-small").manifest
    assert made.precision in ("bf16", "mixed")
    assert (made.labels, made.model_class) == (before.labels, before.model_class)
    assert [entry.sha256 for entry in made.files] == [entry.sha256 for entry in before.files]
    assert store.verify("m", "v1").manifest == before
    assert json.loads((tmp_path / "found").read_text())["records"] == 40
    assert main(["models", "check", "m", "v1-small", "--config", config]) == ExitCode.OK


def test_a_plan_that_is_only_slower_is_told_and_not_published(
    config: str, rows: str, store: ModelStore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_bf16()
    from model_store.precision.torch_laboratory import TorchLaboratory  # noqa: PLC0415 - torch

    def fp32_wins(_: object, plans: list[object], __: object, rounds: int) -> list[list[float]]:
        return [[1.0 if index == 0 else 2.0] * rounds for index in range(len(plans))]

    monkeypatch.setattr(TorchLaboratory, "race", fp32_wins)

    assert run_bf16(config, rows, "--budget", "0.5", "--publish", "v2") == ExitCode.FAILED
    said = capsys.readouterr().out
    assert "bf16 keeps the budget but is no faster than fp32 on this host" in said
    assert "no proposal: no plan within the budget of 0.5 is faster than fp32" in said
    assert not store.directory_of("m", "v2").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--data", "/no/such/file"], "/no/such/file"),
        (["--data", "EMPTY"], "no sample that the model takes was found"),
        (["--data", "SHORT"], "no sample that the model takes was found, 3 were refused, the last: 256 numbers"),
        (["--budget", "1.5"], "budget"),
        (["--budget", "-0.1"], "budget"),
        (["--precisions", "int4"], "'int4' is not one of bf16, fp16, int8"),
        (["--precisions", "fp32"], "'fp32' is not one of"),
        (["--publish", "v1"], "m/v1 is there already"),
        (["--publish", "../v2"], "../v2"),
        (["--limit", "0"], "limit"),
    ],
)
def test_bad_input_is_named(
    config: str, rows: str, tmp_path: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "EMPTY.jsonl").write_text("")
    np.save(tmp_path / "SHORT.npy", np.zeros((3, 5), np.float32))
    files = {"EMPTY": str(tmp_path / "EMPTY.jsonl"), "SHORT": str(tmp_path / "SHORT.npy")}
    given = [files.get(one, one) for one in arguments]
    data = [] if "--data" in given else ["--data", rows]

    assert main(["precision", "m@v1", *data, *given, "--config", config]) == ExitCode.USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("model", "said"), [("m@v9", "v9"), ("nothing", "nothing"), ("../m@v1", "../m")])
def test_an_unknown_version_is_named(
    config: str, rows: str, model: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["precision", model, "--data", rows, "--config", config]) == ExitCode.USAGE
    assert said in capsys.readouterr().err
