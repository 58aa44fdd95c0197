"""The generated pages say what the code says."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

PROJECT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_reference", PROJECT / "docs" / "generate_reference.py")
    if spec is None or spec.loader is None:
        raise RuntimeError("docs/generate_reference.py is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_pages_have_not_drifted_from_the_code(generator: ModuleType) -> None:
    drifted = [path.name for path, text in generator.pages().items() if path.read_text() != text]
    assert not drifted, "run `make docs`"


def test_a_setting_is_described_by_key_variable_value_default_and_meaning(generator: ModuleType) -> None:
    page = generator.configuration_page()
    row = next(line for line in page.splitlines() if line.startswith("| `batching.max_wait_ms`"))
    assert "`HEADRACE_BATCHING__MAX_WAIT_MS`" in row
    assert "≥ 0" in row
    assert "| `10.0` |" in row
    assert "first record" in row


def test_no_secret_default_is_shown_and_every_group_has_a_table(generator: ModuleType) -> None:
    page = generator.configuration_page()
    assert "**********" not in page
    assert page.count("| key | variable |") == len(generator.settings.Settings.model_fields)


def test_every_error_code_is_listed(generator: ModuleType) -> None:
    page = generator.errors_page()
    for code in ("configuration", "too_large", "fenced", "model_failure"):
        assert f"| `{code}` |" in page
