"""`headrace models keys|sign|warm|collect-garbage`, as an operator meets them."""

import json
from pathlib import Path

import pytest
import yaml

from headrace.cli import main
from headrace.cli.exit_codes import ExitCode
from model_store.publishing import VersionDraft, publish_state
from model_store.store import ModelStore
from model_store.torch_loader import save_state
from model_store.verified_stamp import STAMP_SUFFIX


@pytest.fixture
def config(tmp_path: Path) -> str:
    return write_config(tmp_path)


def write_config(folder: Path, **store: object) -> str:
    path = folder / "headrace.yaml"
    settings = {
        "store": {"root": "models", "cache_dir": "cache", **store},
        "model": {"name": "m", "classes": {"mlp": "examples.mlp:MlpClassifier"}},
    }
    path.write_text(yaml.safe_dump(settings))
    return str(path)


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    from examples.mlp import build_mlp  # noqa: PLC0415 - torch, for these tests only

    made = ModelStore(tmp_path / "models")
    for number in range(4):
        publish_state(made, VersionDraft("m", f"v{number}", "mlp"), build_mlp().state_dict(), save_state)
    return made


def make_key(folder: Path, capsys: pytest.CaptureFixture[str], name: str = "release") -> dict[str, object]:
    """Make NAME.key in a folder and return the line for the settings that was printed."""
    assert main(["models", "keys", "create", name, "--out", str(folder / f"{name}.key")]) == ExitCode.OK
    printed = capsys.readouterr()
    private = json.loads((folder / f"{name}.key").read_text())["private_key"]
    assert private not in printed.out + printed.err
    settings = yaml.safe_load(printed.out)
    assert isinstance(settings, dict)
    return dict(settings["store"])


def test_what_keys_create_prints_is_the_settings_that_accept_what_it_signs(
    store: ModelStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, **make_key(tmp_path, capsys))
    key = str(tmp_path / "release.key")

    assert main(["models", "check", "m", "v0", "--config", config]) == ExitCode.USAGE
    assert "is not signed" in capsys.readouterr().err

    assert main(["models", "sign", "m", "v0", "--key", key, "--config", config]) == ExitCode.OK
    assert main(["models", "check", "m", "v0", "--config", config]) == ExitCode.OK

    weights = store.directory_of("m", "v1") / "weights.safetensors"
    publish = ["models", "publish", "m", "v9", "--weights", str(weights), "--class", "mlp", "--config", config]
    assert main([*publish, "--key", key]) == ExitCode.OK
    assert main(["models", "show", "m", "v9", "--config", config]) == ExitCode.OK


def test_a_damaged_version_is_not_signed(
    store: ModelStore, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_key(tmp_path, capsys)
    path = store.directory_of("m", "v0") / "weights.safetensors"
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")

    assert main(["models", "sign", "m", "v0", "--key", str(tmp_path / "release.key"), "--config", config]) == 2
    assert "SHA-256" in capsys.readouterr().err
    assert not (path.parent / "manifest.sig").exists()


def test_a_key_is_not_made_over_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_key(tmp_path, capsys)

    assert main(["models", "keys", "create", "release", "--out", str(tmp_path / "release.key")]) == ExitCode.USAGE


def test_warm_fetches_once_and_says_so(
    store: ModelStore, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for expected in (["fetched", "was warm"], ["was warm", "was warm"]):  # both have the same weights
        assert main(["models", "warm", "m", "v0", "v1", "--config", config]) == ExitCode.OK
        lines = capsys.readouterr().out.splitlines()
        assert [line.partition(": ")[2].partition(",")[0] for line in lines] == expected
    kept = [path for path in (tmp_path / "cache").iterdir() if path.suffix != STAMP_SUFFIX and path.name != ".lock"]
    assert len(kept) == 1


def test_garbage_is_shown_first_and_then_removed(
    store: ModelStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path)
    with Path(config).open("a") as file:
        file.write("redis: {url: ''}\n")

    assert main(["models", "collect-garbage", "m", "--keep", "2", "--dry-run", "--config", config]) == ExitCode.OK
    assert "m v0: would be removed" in capsys.readouterr().out
    assert len(store.list_versions("m")) == 4

    assert main(["models", "collect-garbage", "m", "--keep", "2", "--config", config]) == ExitCode.OK
    printed = capsys.readouterr()
    assert "removed 2 versions of m" in printed.out
    assert "only the settings say which versions are in use" in printed.err
    assert store.list_versions("m") == [("m", "v2"), ("m", "v3")]


def test_a_version_that_the_settings_fix_is_in_use(store: ModelStore, config: str) -> None:
    Path(config).write_text(Path(config).read_text().replace("name: m", "name: m\n  version: v0"))

    assert main(["models", "collect-garbage", "m", "--keep", "0", "--config", config]) == ExitCode.OK
    assert store.list_versions("m") == [("m", "v0")]


def test_when_redis_does_not_answer_nothing_goes(
    store: ModelStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path)
    with Path(config).open("a") as file:
        file.write("redis: {url: 'redis://127.0.0.1:9', timeout_seconds: 0.2}\n")

    code = main(["models", "collect-garbage", "m", "--keep", "0", "--config", config])

    assert code == ExitCode.UNAVAILABLE
    assert len(store.list_versions("m")) == 4
