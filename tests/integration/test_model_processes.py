"""Real model processes that are asked to answer, to fail and to die in every way."""

import os
import signal
import time
from collections.abc import Iterator

import pytest

from schemas.records import Stage
from stream_workers.batching.work import RunMode, ServedVersion
from stream_workers.pipeline.contract import BatchAnswered, BatchLost, BatchRaised, RecordRefused
from tests.fakes.local_fleet import LocalFleet, settings_for
from tests.models.obedient import expected
from tests.models.store_builder import publish

TIMEOUT_SECONDS = 1.0


@pytest.fixture(scope="module", params=[0, 1], ids=["one after the other", "prepared ahead"])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    tmp_path = tmp_path_factory.mktemp("fleet")
    publish(tmp_path / "store")
    publish(tmp_path / "store", "v2", bias=True)
    publish(tmp_path / "store", "refuses", refuse=True)
    publish(tmp_path / "store", "dies", die=True)
    publish(tmp_path / "store", "hangs", load_seconds=60)
    settings = settings_for(
        tmp_path,
        model={
            "batch_timeout_seconds": TIMEOUT_SECONDS,
            "load_timeout_seconds": 20,
            "keep_warm_seconds": 0,
            "decode_threads": request.param,
        },
        batching={"slots": 3},
        worker={"max_restarts": 20},
    )
    local = LocalFleet(settings)
    local.serve()
    local.await_ready()
    yield local
    local.close()


def test_each_record_gets_its_own_answer(fleet: LocalFleet) -> None:
    for mode in RunMode:
        outcome = fleet.run([{"x": x} for x in range(16)], mode)
        assert isinstance(outcome, BatchAnswered)
        assert [float(output) for output in outcome.outcomes if isinstance(output, bytes)] == [
            expected(x) for x in range(16)
        ]
        assert outcome.version == ServedVersion("test", "v1", 1)
        assert outcome.model_ms > 0


def test_a_refused_record_and_a_nan_leave_their_neighbours_alone(fleet: LocalFleet) -> None:
    for mode in RunMode:
        outcome = fleet.run([{"x": 1}, {"x": 2, "do": "refuse"}, b"not json", {"x": 3, "do": "nan"}, {"x": 4}], mode)
        assert isinstance(outcome, BatchAnswered)
        first, refused, broken, nan, last = outcome.outcomes
        assert (first, last) == (b"3.0", b"9.0")
        for record, stage, code in [
            (refused, Stage.PREPROCESS, "invalid_input"),
            (broken, Stage.PREPROCESS, "invalid_input"),
            (nan, Stage.POSTPROCESS, "invalid_output"),
        ]:
            assert isinstance(record, RecordRefused)
            assert (record.stage, record.code) == (stage, code)


@pytest.mark.parametrize(
    ("do", "stage", "error_class"),
    [
        ("raise", Stage.MODEL, "RuntimeError"),
        ("short", Stage.POSTPROCESS, "InvalidOutputError"),
        ("sys_exit", Stage.MODEL, "SystemExit"),
    ],
)
def test_a_batch_that_raises_names_its_stage_and_the_process_goes_on(
    fleet: LocalFleet, do: str, stage: Stage, error_class: str
) -> None:
    before = set(fleet.fleet.instances)
    outcome = fleet.run([{"x": 1}, {"x": 2, "do": do}])
    assert isinstance(outcome, BatchRaised)
    assert (outcome.stage, outcome.error_class) == (stage, error_class)
    assert set(fleet.fleet.instances) == before


def test_in_isolated_mode_a_record_that_raises_is_refused_alone(fleet: LocalFleet) -> None:
    outcome = fleet.run([{"x": 1}, {"x": 2, "do": "raise"}, {"x": 3}], RunMode.ISOLATED)
    assert isinstance(outcome, BatchAnswered)
    first, culprit, last = outcome.outcomes
    assert (first, last) == (b"3.0", b"7.0")
    assert isinstance(culprit, RecordRefused)
    assert (culprit.stage, culprit.code) == (Stage.MODEL, "model_failure")


def test_a_crash_in_preprocess_names_its_record_and_spares_the_batch_behind_it(fleet: LocalFleet) -> None:
    fleet.await_ready()
    guilty = fleet.submit([{"x": 1}, {"x": 2, "do": "pre_exit"}, {"x": 3}])
    innocent = fleet.submit([{"x": 1}])
    lost = fleet.pump_until(lambda: not fleet.fleet.count_loaded() and not fleet.pool.has_instances())
    lost += fleet.pump_until(lambda: fleet.pool.count_free_slots() > 0)
    by_batch = {outcome.batch.id: outcome for outcome in lost if isinstance(outcome, BatchLost)}
    assert by_batch[guilty.id].suspect
    assert by_batch[guilty.id].culprit == 1
    assert (by_batch[guilty.id].code, by_batch[guilty.id].detail) == ("model_crashed", "exit code 7")
    assert not by_batch[innocent.id].suspect
    assert by_batch[innocent.id].culprit is None


def test_a_native_crash_in_isolated_mode_names_its_record_and_keeps_the_answers_before_it(fleet: LocalFleet) -> None:
    outcome = fleet.run([{"x": 1}, {"x": 2}, {"x": 3, "do": "segv"}, {"x": 4}], RunMode.ISOLATED)
    assert isinstance(outcome, BatchLost)
    assert list(outcome.answered) == [b"3.0", b"5.0"]
    assert (outcome.suspect, outcome.culprit) == (True, 2)
    assert (outcome.code, outcome.detail) == ("model_crashed", "killed by SIGSEGV")


def test_a_batch_without_progress_is_killed_at_its_deadline(fleet: LocalFleet) -> None:
    fleet.await_ready()
    began = time.monotonic()
    outcome = fleet.run([{"x": 1}, {"x": 2, "do": "pre_sleep"}])
    assert isinstance(outcome, BatchLost)
    assert (outcome.code, outcome.suspect, outcome.culprit) == ("model_timeout", True, 1)
    assert TIMEOUT_SECONDS <= time.monotonic() - began < TIMEOUT_SECONDS + 1.5


def test_a_stopped_process_is_noticed_only_when_it_has_work(fleet: LocalFleet) -> None:
    fleet.await_ready()
    (instance,) = fleet.fleet.instances.values()
    os.kill(instance.child.pid, signal.SIGSTOP)
    idle_until = time.monotonic() + 1.5 * TIMEOUT_SECONDS
    fleet.pump_until(lambda: time.monotonic() > idle_until)
    assert fleet.fleet.instances == {instance.number: instance}
    outcome = fleet.run([{"x": 1}])
    assert isinstance(outcome, BatchLost)
    assert (outcome.code, outcome.suspect) == ("model_timeout", False)


def test_a_new_member_finds_the_model_warm_and_no_answer_of_the_old_one(fleet: LocalFleet) -> None:
    fleet.await_ready()
    before = set(fleet.fleet.instances)
    fleet.submit([{"x": 100}])
    fleet.connect()
    began = time.monotonic()
    outcome = fleet.run([{"x": 1}])
    assert time.monotonic() - began < 1.0
    assert isinstance(outcome, BatchAnswered)
    assert list(outcome.outcomes) == [b"3.0"]
    assert set(fleet.fleet.instances) == before


@pytest.mark.parametrize(
    ("version", "reason"), [("refuses", "never loads"), ("dies", "exit code 9"), ("missing", "not in")]
)
def test_a_version_that_cannot_load_is_refused_while_the_old_one_serves(
    fleet: LocalFleet, version: str, reason: str
) -> None:
    fleet.await_ready()
    fleet.link.refused.clear()
    fleet.serve(version, 5)
    fleet.pump_until(lambda: bool(fleet.link.refused))
    assert reason in fleet.link.refused[0].reason
    assert isinstance(fleet.run([{"x": 1}]), BatchAnswered)
    assert fleet.pool.active_version() == ServedVersion("test", "v1", 1)


def test_a_newer_wish_calls_off_a_load_that_hangs(fleet: LocalFleet) -> None:
    fleet.await_ready()
    fleet.serve("hangs", 6)
    fleet.pump_until(lambda: len(fleet.fleet.instances) == 2)
    fleet.serve("v1", 7)
    fleet.pump_until(lambda: len(fleet.fleet.instances) == 1)
    fleet.pump_until(lambda: fleet.pool.active_version() == ServedVersion("test", "v1", 7))


def test_a_switch_finishes_old_batches_under_the_old_version_and_frees_its_processes(fleet: LocalFleet) -> None:
    fleet.await_ready()
    old = set(fleet.fleet.instances)
    fleet.serve("v2", 8)
    versions: list[ServedVersion] = []
    while not versions or versions[-1].version != "v2":
        outcome = fleet.run([{"x": 1}])
        assert isinstance(outcome, BatchAnswered)
        versions.append(outcome.version)
    assert versions == sorted(versions, key=lambda version: version.epoch)
    fleet.pump_until(lambda: not old & set(fleet.fleet.instances))
    assert len(fleet.fleet.instances) == 1
