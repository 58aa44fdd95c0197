"""A command beside the demo."""

import sys

import pytest

from headrace.demo.background_command import BackgroundCommand
from schemas.errors import UnavailableError


def make_command(code: str, **environment: str) -> BackgroundCommand:
    return BackgroundCommand("helper", [sys.executable, "-c", code], environment)


def test_a_command_that_succeeds_is_waited_for_with_its_variables() -> None:
    command = make_command("import os, sys; sys.exit(int(os.environ['CODE']))", CODE="0")
    command.start()
    command.wait(30.0)


def test_a_command_that_fails_is_named_with_its_last_words() -> None:
    command = make_command("import sys; sys.exit('no such model')")
    command.start()
    with pytest.raises(UnavailableError, match="helper failed: no such model"):
        command.wait(30.0)


def test_a_command_that_takes_too_long_is_named_and_can_be_killed() -> None:
    command = make_command("import time; time.sleep(60)")
    command.start()
    with pytest.raises(UnavailableError, match="not done"):
        command.wait(0.05)
    command.kill()
    command.kill()


def test_a_command_that_was_never_started_has_nothing_to_wait_for_or_kill() -> None:
    command = make_command("")
    command.wait(1.0)
    command.kill()
