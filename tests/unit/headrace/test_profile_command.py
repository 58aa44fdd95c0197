"""What `headrace profile` refuses before it measures anything."""

from pathlib import Path

import pytest

from headrace.cli import main
from headrace.cli.exit_codes import ExitCode
from tests.models.store_builder import publish


@pytest.fixture
def config(tmp_path: Path) -> str:
    publish(tmp_path / "store")
    publish(tmp_path / "store", "v2")
    path = tmp_path / "headrace.yaml"
    path.write_text("store: {root: store}\nmodel: {classes: {obedient: 'tests.models.obedient:Obedient'}}\n")
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "which version of nothing? MODEL@VERSION says it"),
        (["test"], "v1, v2"),
        (["test@v3"], "v3"),
        (["test@../v1"], "model name or version"),
        (["test@v1", "--versions", "v1,v2"], "given twice"),
        (["test@v1", "--data", "/no/such/folder"], "/no/such/folder"),
        (["test@v1", "--data", "/proc/self/status"], "cannot be opened"),
    ],
)
def test_bad_input_is_named(config: str, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", *arguments, "--rate", "10", "--p99-ms", "100", "--config", config]) == ExitCode.USAGE
    assert said in capsys.readouterr().err


def test_a_rate_and_a_target_are_needed(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "test@v1", "--config", config]) == ExitCode.USAGE
    assert main(["profile", "test@v1", "--rate", "0", "--p99-ms", "10", "--config", config]) == ExitCode.USAGE
