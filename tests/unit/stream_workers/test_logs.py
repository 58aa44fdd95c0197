"""What a process of a worker says when something raises: where, never with what."""

import pytest
import structlog

from schemas.settings import LogSettings
from stream_workers.logs import set_up_logs


def fail_with_a_secret_at_hand() -> None:
    password = "hunter2"
    raise ValueError(f"no account for a password of {len(password)} characters")


@pytest.mark.parametrize("style", ["json", "console"])
def test_a_traceback_shows_no_local_variable(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logs(LogSettings(format=style))
    try:
        fail_with_a_secret_at_hand()
    except ValueError:
        structlog.get_logger("test").exception("failed")
    finally:
        structlog.reset_defaults()
    printed = capsys.readouterr().err
    assert "fail_with_a_secret_at_hand" in printed
    assert "no account for a password of 7 characters" in printed
    assert "hunter2" not in printed
