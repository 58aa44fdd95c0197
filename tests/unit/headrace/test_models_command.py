import json
from pathlib import Path

import pytest

from headrace.cli import main
from headrace.cli.exit_codes import ExitCode
from model_store.store import ModelStore
from model_store.torch_loader import save_state
from tests.unit.model_store.builders import CANARY_PICKLE


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "headrace.yaml"
    path.write_text("store: {root: models, cache_dir: cache}\nmodel: {classes: {mlp: 'examples.mlp:MlpClassifier'}}\n")
    return str(path)


@pytest.fixture
def weights(tmp_path: Path) -> str:
    from examples.mlp import build_mlp  # noqa: PLC0415 - torch, for these tests only

    path = tmp_path / "trained.safetensors"
    save_state(build_mlp().state_dict(), path)
    return str(path)


def publish(config: str, weights: str, *more: str) -> int:
    return main(["models", "publish", "m", "v1", "--weights", weights, "--class", "mlp", "--config", config, *more])


def test_a_version_is_published_listed_shown_and_checked(
    config: str, weights: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("cat\ndog\n")

    assert (
        publish(config, weights, "--labels", str(labels), "--option", "side=7", "--option", "name=x=y") == ExitCode.OK
    )
    assert main(["models", "list", "--config", config]) == ExitCode.OK
    assert capsys.readouterr().out.splitlines() == ["m v1 (mlp, 1.6 MB)", "m v1"]

    assert main(["models", "show", "m", "v1", "--config", config]) == ExitCode.OK
    shown = json.loads(capsys.readouterr().out)
    assert (shown["labels"], shown["options"]) == (["cat", "dog"], {"side": 7, "name": "x=y"})

    assert main(["models", "check", "m", "v1", "--config", config]) == ExitCode.OK
    assert "answered its example 17 times" in capsys.readouterr().out


def test_a_golden_sample_that_is_answered_otherwise_fails_the_check(
    config: str, weights: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = tmp_path / "golden.json"
    golden.write_text(json.dumps({"payload": [0.0] * 256, "answer": "nothing of the kind"}))

    assert publish(config, weights, "--golden", str(golden)) == ExitCode.OK
    assert main(["models", "check", "m", "v1", "--config", config]) == ExitCode.USAGE
    assert "golden sample" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"answer": 1}', "(whole)"),
        ('{"payload": 1}', "answer"),
        ("{", "(whole)"),
        ('{"payload": 1, "answer": 1, "x": 1}', "x:"),
    ],
)
def test_a_golden_sample_that_is_none_is_refused_by_field(
    config: str, weights: str, tmp_path: Path, text: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = tmp_path / "golden.json"
    golden.write_text(text)

    assert publish(config, weights, "--golden", str(golden)) == ExitCode.USAGE
    assert f"--golden {golden}: {reason}" in capsys.readouterr().err


def test_publishing_twice_says_so_in_one_line(config: str, weights: str, capsys: pytest.CaptureFixture[str]) -> None:
    publish(config, weights)

    assert publish(config, weights) == ExitCode.USAGE
    assert capsys.readouterr().err == "headrace: m/v1 is there already: versions never change\n"


@pytest.mark.parametrize("option", ["side", "=7", "a=1"])
def test_an_option_must_be_a_pair_given_once(config: str, weights: str, option: str) -> None:
    assert publish(config, weights, "--option", "a=2", "--option", option) == ExitCode.USAGE


def test_a_pickle_is_refused(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.safetensors").write_bytes(CANARY_PICKLE)

    assert publish(config, str(tmp_path / "model.safetensors")) == ExitCode.USAGE
    assert "is a pickle" in capsys.readouterr().err


def test_a_damaged_version_fails_its_check(config: str, weights: str, tmp_path: Path) -> None:
    publish(config, weights)
    path = ModelStore(tmp_path / "models").directory_of("m", "v1") / "weights.safetensors"
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")

    assert main(["models", "check", "m", "v1", "--config", config]) == ExitCode.USAGE
    assert main(["models", "activate", "m", "v1", "--config", config]) == ExitCode.USAGE


@pytest.mark.parametrize(
    "command", [["check", "m", "../v1"], ["show", "m", "v9"], ["activate", "m", "v9"], ["active", "m"]]
)
def test_what_is_not_there_or_not_configured_is_a_usage_error(config: str, command: list[str]) -> None:
    assert main(["models", *command, "--config", config]) == ExitCode.USAGE


def test_a_class_that_is_not_registered_is_refused_before_anything_is_written(
    config: str, weights: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["models", "publish", "m", "v1", "--weights", weights, "--class", "zzz", "--config", config])
    assert code == ExitCode.USAGE
    assert (
        "class zzz is not registered in model.classes; there are efficientnet-lite, exported, mlp"
        in capsys.readouterr().err
    )
    assert main(["models", "list", "--config", config]) == ExitCode.OK
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "no version in" in printed.err
    assert "which is not a folder" in printed.err
