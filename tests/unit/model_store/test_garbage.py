"""Which versions go: never one that somebody names, and not the newest."""

import json
from collections.abc import Set
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.garbage import DatedVersion, collect, names_in_use, plan_for, plan_removal
from model_store.store import ModelStore
from model_store.timeline import Timeline
from model_store.worker_reports import Candidate, Roster, WorkerReport
from schemas.errors import InvalidPointerError, UnavailableError
from tests.unit.model_store.builders import publish

NAMES = st.sampled_from([f"v{number}" for number in range(8)])
VERSIONS = st.dictionaries(NAMES, st.sampled_from(["", "2026-01-01", "2026-02-01", "2026-03-01"]))


@given(VERSIONS, st.sets(NAMES), st.integers(0, 9))
def test_what_is_named_stays_and_of_the_rest_the_newest(dates: dict[str, str], in_use: set[str], keep: int) -> None:
    plan = plan_removal([DatedVersion(*pair) for pair in dates.items()], in_use, keep)

    assert sorted((*plan.removed, *plan.in_use, *plan.recent)) == sorted(dates)
    assert set(plan.in_use) == in_use & dates.keys()
    assert len(plan.recent) == min(keep, len(dates) - len(plan.in_use))
    assert all(dates[gone] <= dates[kept] for gone in plan.removed for kept in plan.recent)


def test_what_decisions_a_preparation_and_live_workers_name_is_in_use() -> None:
    timeline = Timeline().with_activation("first", 0, 1).with_activation({"a": 9, "b": 1}, 1, 2)
    candidate = Candidate("0" * 16, ("next",), "somebody", 3)
    report = WorkerReport("g.w-0", 0, "host", 1, 2, serving=("a",), warm=("a", "warm"))

    assert names_in_use(timeline, candidate, Roster((report,))) == {"first", "a", "b", "next", "warm"}
    assert names_in_use(None, None, Roster()) == set()


def test_a_worker_that_cannot_be_understood_keeps_everything() -> None:
    with pytest.raises(InvalidPointerError, match=r"g\.w-0"):
        names_in_use(None, None, Roster(unreadable=("g.w-0",)))


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    made = ModelStore(tmp_path / "models")
    for number in range(4):
        path = publish(made, "m", f"v{number}").directory / "manifest.json"
        path.chmod(0o644)
        path.write_text(json.dumps({**json.loads(path.read_text()), "created_at": f"2026-0{number + 1}-01"}))
    return made


def test_a_version_that_cannot_be_read_is_left_alone(store: ModelStore) -> None:
    (store.root / "m/v1/manifest.json").write_text("{")

    plan = plan_for(store, "m", {"v0"}, keep=1)

    assert (plan.removed, plan.in_use, plan.recent, plan.unreadable) == (("v2",), ("v0",), ("v3",), ("v1",))


def test_planned_versions_are_removed_and_nothing_else(store: ModelStore) -> None:
    plan = plan_for(store, "m", {"v0"}, keep=1)

    removed = collect(store, "m", plan.removed, lambda _: {"v0"}, lambda _: None)

    assert removed == ["v1", "v2"]
    assert store.list_versions() == [("m", "v0"), ("m", "v3")]
    assert store.verify("m", "v0")
    assert not list(store.root.glob(".*"))


def test_a_version_that_is_activated_meanwhile_stays_whole(store: ModelStore) -> None:
    told: list[str] = []

    removed = collect(store, "m", ["v0", "v1"], lambda _: {"v0"}, told.append)

    assert removed == ["v1"]
    assert store.verify("m", "v0")
    assert "in use" in told[0]


def test_when_it_cannot_be_known_what_is_in_use_nothing_goes(store: ModelStore) -> None:
    def unknown(model: str) -> Set[str]:
        raise UnavailableError("Redis is away")

    with pytest.raises(UnavailableError):
        collect(store, "m", ["v0"], unknown, lambda _: None)
    assert store.verify("m", "v0")


def test_a_version_that_somebody_else_removed_is_said_to_be_gone(store: ModelStore) -> None:
    told: list[str] = []

    assert collect(store, "m", ["v9", "v0"], lambda _: set(), told.append) == ["v0"]
    assert told == ["m v9: gone already"]


def test_a_removed_version_that_a_killed_collector_left_aside_goes_by_age(store: ModelStore) -> None:
    aside = store.root / ".removed-dead"
    (store.root / "m/v0").rename(aside)
    when = aside.stat().st_ctime

    assert store.remove_leftovers(when + 10, older_than_seconds=60) == 0
    assert store.remove_leftovers(when + 100, older_than_seconds=60) == 1
    assert not aside.exists()
