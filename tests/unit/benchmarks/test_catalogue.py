import dataclasses
import importlib.util

import pytest

from benchmarks.contestants.catalogue import CONTESTANTS, Family, select_contestants
from benchmarks.environments.environment import PINS, read_pins
from benchmarks.options import read_options
from benchmarks.workloads.specification import WORKLOADS


def test_every_peer_runs_as_documented_and_tuned():
    peers = {name for name, one in CONTESTANTS.items() if one.family is Family.PEER}
    documented = {name for name in peers if not name.endswith("-tuned")}

    assert documented == {"faust", "quix", "bytewax", "kafka-python", "mosec"}
    assert peers == documented | {f"{name}-tuned" for name in documented}


@pytest.mark.parametrize("contestant", CONTESTANTS.values(), ids=lambda one: one.name)
def test_what_a_contestant_names_exists(contestant):
    assert not contestant.module or importlib.util.find_spec(contestant.module)
    assert not contestant.environment or (PINS / f"{contestant.environment}.txt").is_file()


def test_all_packages_of_an_environment_are_pinned():
    for file in PINS.glob("*.txt"):
        assert all("==" in pin for pin in read_pins(file.stem))


def test_the_smaller_fields_are_parts_of_the_full_one():
    full = select_contestants([], [], core_only=False, quick=False)
    core = select_contestants([], [], core_only=True, quick=False)
    quick = select_contestants([], [], core_only=False, quick=True)

    assert {one.name for one in full} == set(CONTESTANTS)
    assert {one.name for one in core} < set(CONTESTANTS)
    assert {"headrace", "overlapped", "loop-per-core"} <= {one.name for one in quick} < set(CONTESTANTS)


def test_contestants_are_chosen_by_name_or_family():
    chosen = select_contestants(["limits", "faust"], [], core_only=True, quick=True)

    assert {one.name for one in chosen} == {"model-alone", "decode-and-model", "transport-alone", "faust"}


def test_an_unknown_contestant_is_named():
    with pytest.raises(ValueError, match="flink"):
        select_contestants(["flink"], [], core_only=False, quick=False)


def test_ladders_rise_and_hold_the_quick_backlog():
    for workload in WORKLOADS.values():
        assert list(workload.ladder) == sorted(set(workload.ladder))
        assert workload.quick_records in workload.ladder


def test_a_quick_run_has_two_rounds_and_the_quick_scenarios(tmp_path):
    options = read_options(["--quick", "--out", str(tmp_path)], ["small", "lanes"], ["small"])

    assert (options.rounds, options.only, options.out) == (2, ("small",), tmp_path)


def test_a_run_has_five_rounds_of_all_scenarios():
    options = read_options([], ["small", "lanes"], ["small"])

    assert (options.rounds, options.only) == (5, ("small", "lanes"))


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--overlay", "bf16"], ["--overlay", "a=/no/such/file"]])
def test_options_that_cannot_be_right_are_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        read_options(arguments, ["small"], ["small"])

    assert arguments[0] in capsys.readouterr().err


def test_an_overlay_takes_part_whoever_else_is_named() -> None:
    extra = dataclasses.replace(CONTESTANTS["headrace"], name="mine", is_core=False, is_quick=False)

    assert extra in select_contestants(["loop"], [extra], core_only=True, quick=True)
    assert extra in select_contestants([], [extra], core_only=True, quick=True)
