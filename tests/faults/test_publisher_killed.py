"""A publisher that is killed at every step of its work: never half a version, and the next publisher succeeds."""

import subprocess
import sys
from pathlib import Path

import pytest

from model_store.store import ModelStore
from schemas.errors import VersionExistsError
from tests.unit.model_store.builders import SOUND_WEIGHTS, publish

# Counts the steps of a publisher and ends it, as SIGKILL would, at the one it was told.
PUBLISHER = """
import os, signal, sys
from pathlib import Path
from model_store import plain_files, publishing, store

root, weights, fatal = sys.argv[1:]
steps = 0

def step():
    global steps
    steps += 1
    if steps == int(fatal):
        os.kill(os.getpid(), signal.SIGKILL)

def watched(function):
    def call(*arguments):
        step()
        result = function(*arguments)
        step()
        return result
    return call

def half_copy(source, target):
    data = Path(source).read_bytes()
    target.write_bytes(data[: len(data) // 2])
    step()
    target.write_bytes(data)

publishing._copy = half_copy
publishing._write_manifest = watched(publishing._write_manifest)
publishing._seal = watched(publishing._seal)
store.sync_directory = watched(store.sync_directory)
Path.rename = watched(Path.rename)
publishing.publish_file(store.ModelStore(Path(root)), publishing.VersionDraft("m", "v1", "some-class"), Path(weights))
print(steps)
"""


def run_publisher(root: Path, weights: Path, fatal_step: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PUBLISHER, str(root), str(weights), str(fatal_step)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights.safetensors"
    path.write_bytes(SOUND_WEIGHTS)
    return path


def test_a_killed_publisher_leaves_all_or_nothing(tmp_path: Path, weights: Path) -> None:
    finished = run_publisher(tmp_path / "unharmed", weights, 0)
    steps = int(finished.stdout)
    assert steps > 10

    for fatal in range(1, steps + 1):
        store = ModelStore(tmp_path / f"killed-at-{fatal}")
        assert run_publisher(store.root, weights, fatal).returncode == -9

        visible = store.list_versions()
        if visible:
            assert store.verify("m", "v1")
            with pytest.raises(VersionExistsError):
                publish(store)
        else:
            publish(store)
        assert store.verify("m", "v1")
        assert store.list_versions() == [("m", "v1")]
        store.remove_leftovers(now=float(2**40))
        assert [path.name for path in store.root.iterdir()] == ["m"]
