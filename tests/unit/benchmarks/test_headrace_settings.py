from pathlib import Path

import pytest
import yaml

from benchmarks.contestants.assignment import Assignment
from benchmarks.contestants.catalogue import CONTESTANTS, overlay_contestant
from benchmarks.contestants.headrace_settings import OVERLAYS, build_settings, merge, read_overlay
from benchmarks.workloads.specification import WORKLOADS
from schemas.settings import Settings


def assign(workload):
    return Assignment(
        workload=workload,
        bootstrap="127.0.0.1:1",
        requests="requests",
        results="results",
        group="group",
        weights="weights",
        batch_size=WORKLOADS[workload].batch_size,
        is_tuned=True,
        processes=1,
        threads=1,
        folder="/nowhere",
    )


def build(workload, contestant, more=None):
    return build_settings(assign(workload), contestant, Path("/models"), more or {})


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("name", ["headrace", "headrace-at-least-once", "headrace-default"])
def test_headrace_accepts_the_settings_of_every_workload(workload, name):
    settings = Settings.model_validate(build(workload, CONTESTANTS[name]))

    assert settings.worker.delivery is CONTESTANTS[name].delivery
    assert settings.batching.max_batch_size == WORKLOADS[workload].batch_size


def test_defaults_differ_from_the_shipped_settings_by_the_batch_size_alone():
    found = Settings.model_validate(build("small", CONTESTANTS["headrace-default"]))

    assert found.batching == Settings().batching.model_copy(update={"max_batch_size": 256})
    assert found.worker.commit_interval_ms == Settings().worker.commit_interval_ms


def test_an_overlay_wins_over_the_workload_but_not_over_what_a_run_dictates(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("batching: {slots: 7}\ntopics: {results: elsewhere}\n", encoding="utf-8")

    found = build("small", overlay_contestant("mine", file))

    assert found["batching"]["slots"] == 7
    assert found["topics"]["results"] == "results"


def test_a_scenario_wins_over_all():
    found = build("small", CONTESTANTS["headrace"], {"batching": {"max_batch_size": 1}})

    assert found["batching"]["max_batch_size"] == 1
    assert "slots" in found["batching"]


def test_every_shipped_overlay_is_accepted():
    for path in OVERLAYS.glob("*.yaml"):
        Settings.model_validate(read_overlay(path))


def test_merging_changes_neither_side():
    lower, upper = {"a": {"b": 1, "c": 2}}, {"a": {"b": 3}, "d": 4}

    assert merge(lower, upper) == {"a": {"b": 3, "c": 2}, "d": 4}
    assert lower == {"a": {"b": 1, "c": 2}}


def test_what_is_no_mapping_is_no_overlay(tmp_path):
    file = tmp_path / "list.yaml"
    file.write_text(yaml.safe_dump([1, 2]), encoding="utf-8")

    with pytest.raises(TypeError, match="mapping"):
        read_overlay(file)
