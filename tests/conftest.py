"""What all tests share: markers from folders, and one local stack for everything that needs real servers."""

import os
import re
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.local_stack.stack import LocalStack
from schemas.errors import PipelineError

TESTS = Path(__file__).parent
FOLDERS = ("unit", "contract", "integration", "faults")


def pytest_configure() -> None:
    """Undo what a shell does to what it starts in the background: the commands under test inherit an ignored Ctrl-C."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the name of its folder."""
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if folder in FOLDERS:
            item.add_marker(folder)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """A real Kafka and a real Valkey, started when the first test asks. Leave them running, on the same ports."""
    local = LocalStack(tmp_path_factory.mktemp("stack"))
    try:
        local.start()
    except PipelineError as error:
        skip_or_fail(f"no local stack: {error}")
    yield local
    local.stop()


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A prefix for topics, groups and keys that no other test and no earlier run has used."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return f"{name[:40]}-{uuid.uuid4().hex[:8]}"


def skip_or_fail(reason: str) -> None:
    """A missing service skips on a laptop; in CI it is a failure, or it would never be noticed."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
