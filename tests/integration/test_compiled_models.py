"""Real model processes with `model.compile`."""

import shutil
from pathlib import Path

import pytest

from stream_workers.pipeline.contract import BatchAnswered
from tests.fakes.local_fleet import LocalFleet, settings_for
from tests.models.obedient import expected
from tests.models.store_builder import publish

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="torch.compile needs a C++ compiler: install g++"
)


def start(tmp_path: Path, **groups: dict[str, object]) -> LocalFleet:
    publish(tmp_path / "store")
    fleet = LocalFleet(settings_for(tmp_path, **groups))
    fleet.serve()
    return fleet


@needs_compiler
def test_a_compiled_version_is_loaded_once_every_bucket_is_and_answers_the_same(tmp_path: Path) -> None:
    fleet = start(tmp_path, model={"compile": True, "load_timeout_seconds": 250}, batching={"max_batch_size": 4})
    try:
        fleet.pump_until(lambda: fleet.pool.count_free_slots() > 0, 250)
        for count in (1, 3, 4):
            outcome = fleet.run([{"x": x} for x in range(count)])
            assert isinstance(outcome, BatchAnswered)
            assert [float(output) for output in outcome.outcomes if isinstance(output, bytes)] == [
                expected(x) for x in range(count)
            ]
            assert outcome.padded == {1: 0, 3: 1, 4: 0}[count]
    finally:
        fleet.close()
    assert any((tmp_path / "cache").glob("**/compiled/**/*.so")), "compiled code lies in the cache of the settings"


def test_a_version_that_cannot_be_compiled_is_refused_and_its_process_is_not_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(tmp_path / "no-such-compiler"))
    fleet = start(tmp_path, model={"compile": True, "load_timeout_seconds": 250}, batching={"max_batch_size": 2})
    try:
        fleet.pump_until(lambda: bool(fleet.link.refused), 250)
        reason = fleet.link.refused[0].reason
        fleet.pump_until(lambda: not fleet.fleet.instances)
    finally:
        fleet.close()
    assert "model.compile: this version cannot be compiled" in reason
