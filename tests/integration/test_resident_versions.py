"""Real model processes of several versions: going back takes no load, and what cannot be loaded touches nothing."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from model_store.store import ModelStore
from schemas.errors import ConfigurationError
from schemas.golden import GoldenSample
from schemas.manifest import WEIGHTS_FILE
from stream_workers.batching.work import ServedVersion
from stream_workers.links.messages import Candidate
from stream_workers.pipeline.contract import BatchAnswered, BatchLost
from stream_workers.supervision.model_check import check_model
from tests.fakes.local_fleet import LocalFleet, child_environment, settings_for
from tests.models.store_builder import publish

MEBIBYTE = 1 << 20
LOAD_MEMORY_BYTES = 900 * MEBIBYTE
"""Well above what torch itself takes."""
A, B = ServedVersion("test", "a", 1), ServedVersion("test", "b", 2)

REASONS = {
    "mismatched": "golden sample: answer is 3.0, 4 was expected",
    "unanswered": "golden sample: refused in preprocess",
    "truncated": "weights.safetensors",
    "hangs": "TimeoutError: not loaded within 8 s",
    "hungry": "load_exceeded_memory",
    "raises": "never loads",
    "dies": "its process ended while loading: exit code 9",
    "missing": "not in",
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    tmp_path = tmp_path_factory.mktemp("fleet")
    store = tmp_path / "store"
    golden = GoldenSample(payload={"x": 2}, answer=5)
    for name in ("a", "b", "c"):
        publish(store, name, golden=golden)
    publish(store, "mismatched", golden=GoldenSample(payload={"x": 1}, answer=4))
    publish(store, "unanswered", golden=GoldenSample(payload={"x": 1, "do": "refuse"}, answer=3))
    publish(store, "truncated")
    _truncate(ModelStore(store).directory_of("test", "truncated") / WEIGHTS_FILE)
    publish(store, "hangs", load_seconds=60)
    publish(store, "hungry", ballast_bytes=LOAD_MEMORY_BYTES)
    publish(store, "raises", refuse=True)
    publish(store, "dies", die=True)
    model = {"load_timeout_seconds": 8, "load_memory_bytes": LOAD_MEMORY_BYTES, "batch_timeout_seconds": 5}
    local = LocalFleet(settings_for(tmp_path, model=model, batching={"slots": 3}, worker={"max_restarts": 20}))
    local.serve("a")
    local.await_ready()
    yield local
    local.close()


def _truncate(path: Path) -> None:
    path.chmod(0o644)
    os.truncate(path, path.stat().st_size - 4)


def _await_active(fleet: LocalFleet, version: str) -> None:
    fleet.pump_until(lambda: getattr(fleet.pool.active_version(), "version", "") == version)


def test_going_back_takes_no_load_and_answers_under_each_version(fleet: LocalFleet) -> None:
    (first,) = fleet.fleet.instances
    fleet.serve("b", 2)
    _await_active(fleet, "b")
    assert fleet.pool.resident() == {"a", "b"}
    both = set(fleet.fleet.instances)
    for epoch, version in enumerate("abab", start=3):
        fleet.serve(version, epoch)
        _await_active(fleet, version)
        outcome = fleet.run([{"x": 1}])
        assert isinstance(outcome, BatchAnswered)
        assert (outcome.version, list(outcome.outcomes)) == (ServedVersion("test", version, epoch), [b"3.0"])
    assert set(fleet.fleet.instances) == both
    assert first in both


def test_batches_of_both_versions_run_side_by_side_and_a_lost_one_names_its_own(fleet: LocalFleet) -> None:
    fleet.pump_until(lambda: fleet.pool.resident() == {"a", "b"})
    fleet.link.serve([B, A])
    fleet.submit([{"x": 1}, {"x": 2, "do": "exit"}], version=A)
    fleet.submit([{"x": 1}], version=B)
    outcomes = fleet.pump_until(lambda: not fleet.pool.has_instances(A))
    outcomes += fleet.pump_until(lambda: fleet.pool.has_instances(A))
    by_version = {outcome.version: outcome for outcome in outcomes}
    assert isinstance(by_version[A], BatchLost)
    assert isinstance(by_version[B], BatchAnswered)
    again = fleet.submit([{"x": 1}], version=A)
    (outcome,) = fleet.pump_until(lambda: fleet.pool.count_free_slots(0, A) == 3) or fleet.pump()
    assert (outcome.batch, outcome.version) == (again, A)


def test_a_candidate_is_ready_beside_what_serves_and_its_promotion_takes_no_load(fleet: LocalFleet) -> None:
    fleet.serve("b", 2, Candidate("one", ["c"]))
    assert fleet.pool.residency().ready is None
    fleet.pump_until(lambda: fleet.pool.residency().ready == "one")
    assert isinstance(fleet.run([{"x": 1}]), BatchAnswered)
    assert set(fleet.pool.residency().loaded) == {"b", "c"}, "the warm version made room"
    loaded = set(fleet.fleet.instances)
    fleet.serve("c", 9)
    _await_active(fleet, "c")
    assert set(fleet.fleet.instances) == loaded


@pytest.mark.parametrize("version", REASONS)
def test_a_candidate_that_will_not_do_is_refused_with_a_reason_and_touches_nothing(
    fleet: LocalFleet, version: str
) -> None:
    active = fleet.pool.active_version()
    assert active is not None
    (serving,) = [number for number, one in fleet.fleet.instances.items() if one.version.version == active.version]
    fleet.serve(active.version, active.epoch, Candidate(version, [version]))
    while (refused := fleet.pool.residency().refused) is None or refused.id != version:
        assert isinstance(fleet.run([{"x": 1}]), BatchAnswered)
    assert REASONS[version] in refused.reason
    fleet.pump_until(lambda: all(one.version.version != version for one in fleet.fleet.instances.values()))
    assert serving in fleet.fleet.instances
    assert (fleet.pool.active_version(), fleet.fleet.failure) == (active, None)


def test_a_check_of_a_version_holds_it_against_its_golden_sample(fleet: LocalFleet) -> None:
    assert check_model(fleet.settings, A, child_environment()).warmed > 0
    with pytest.raises(ConfigurationError, match=r"version mismatched: .*golden sample: answer is 3\.0"):
        check_model(fleet.settings, ServedVersion("test", "mismatched", 0), child_environment())


def test_a_warm_process_that_is_killed_is_warm_again_after_a_while(fleet: LocalFleet) -> None:
    fleet.serve("a", 20)
    _await_active(fleet, "a")
    (warm,) = [one for one in fleet.fleet.instances.values() if one.version.version == "c"]
    os.kill(warm.child.pid, signal.SIGKILL)
    fleet.pump_until(lambda: "c" not in fleet.pool.resident())
    fleet.pump_until(lambda: "c" in fleet.pool.resident())
    assert isinstance(fleet.run([{"x": 1}]), BatchAnswered)


def test_a_new_member_finds_every_version_warm(fleet: LocalFleet) -> None:
    before = set(fleet.fleet.instances)
    fleet.connect()
    fleet.pump_until(lambda: fleet.pool.resident() == {"a", "c"})
    assert set(fleet.fleet.instances) == before
