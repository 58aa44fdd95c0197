from pathlib import Path

import pytest

from headrace.local_stack import stack as stack_module
from headrace.local_stack.stack import LocalStack
from schemas.errors import ConfigurationError, UnavailableError


def test_building_a_stack_touches_nothing(tmp_path: Path) -> None:
    LocalStack(tmp_path / "data")
    assert list(tmp_path.iterdir()) == []


def test_a_stack_that_was_not_started_says_so(tmp_path: Path) -> None:
    local = LocalStack(tmp_path / "data")
    with pytest.raises(UnavailableError, match="was it started"):
        local.environment()
    with pytest.raises(UnavailableError, match="not running"):
        _ = local.broker_pid


def test_stopping_a_stack_that_was_not_started_does_nothing(tmp_path: Path) -> None:
    LocalStack(tmp_path / "data").stop()


def test_without_the_extra_the_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_module, "find_spec", lambda name: None if name == "jgo" else object())
    with pytest.raises(ConfigurationError, match=r"needs jgo.*headrace\[local\]"):
        LocalStack(tmp_path / "data").start()
    assert list(tmp_path.iterdir()) == []
