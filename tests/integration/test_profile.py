"""A tiny model profiled from end to end with real model processes: measured, chosen, written, confirmed."""

import os
from pathlib import Path

import pytest

from headrace.cli import main
from headrace.cli.exit_codes import ExitCode
from schemas.configuration import load_settings
from schemas.errors import ConfigurationError, ModelFailureError
from schemas.records import JSON
from schemas.settings import Settings
from stream_workers.batching.work import ServedVersion
from stream_workers.profiling.choice import Goal
from stream_workers.profiling.confirmation import ConfirmationPlan, confirm
from stream_workers.profiling.example_process import read_example
from stream_workers.profiling.model_bench import ModelBench
from stream_workers.profiling.samples import Sample
from stream_workers.profiling.service_curve import SizeTimes, fit_curve
from stream_workers.profiling.session import Effort, ProfileSession
from stream_workers.profiling.setups import Candidate, Setup
from tests.fakes.local_fleet import CHECKOUT, child_environment, settings_for
from tests.models.store_builder import publish

SAMPLES = [Sample(b'{"x": 1}', JSON), Sample(b'{"x": 22}', JSON)]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    publish(tmp_path / "store")
    publish(tmp_path / "store", "refuses", refuse=True)
    return settings_for(tmp_path, model={"load_timeout_seconds": 60, "instances": 1})


def test_every_setup_is_measured_at_every_size(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_workers.profiling.setups.cores", lambda: 1)
    said: list[str] = []
    session = ProfileSession(settings, SAMPLES, child_environment(), said.append)
    curves = session.measure(["v1"], Goal(10, 1.0), Effort(4, 0.05, 1.0))
    assert set(curves) == {Setup("v1", 1, 1, 1), Setup("v1", 1, 1, 2)}
    for curve in curves.values():
        assert [one.batch_size for one in curve.measured] == [1, 2, 4]
        assert all(seconds > 0 for one in curve.measured for seconds in one.seconds)
        assert all(len(one.seconds) >= 10 for one in curve.measured)
    assert any("batch 4" in text for text in said)


def test_the_confirming_run_answers_every_record_and_compares(settings: Settings) -> None:
    candidate = Candidate(Setup("v1", 1, 1, 2), 8, "auto")
    curve = fit_curve([SizeTimes(1, (0.001,)), SizeTimes(8, (0.002,))])
    with ModelBench(settings, ServedVersion("test", "v1", 0), child_environment()) as bench:
        compared = confirm(bench, SAMPLES, candidate, curve, ConfirmationPlan(200, 0.5, 1 << 20))
        assert bench.batches_in_hand == 0
    assert [one.name for one in compared] == ["p50, ms", "p99, ms", "largest throughput, records/s"]
    assert all(one.measured > 0 and one.forecast > 0 for one in compared)


def test_a_sample_that_the_model_refuses_is_named(settings: Settings) -> None:
    refused = [Sample(b'{"x": 1, "do": "refuse"}', JSON)]
    session = ProfileSession(settings, refused, child_environment(), lambda _: None)
    with pytest.raises(ConfigurationError, match=r"refused a sample .*refused as asked"):
        session.measure(["v1"], Goal(10, 1.0), Effort(1, 0.05, 1.0))


def test_a_model_that_dies_ends_the_profile_with_the_reason(settings: Settings) -> None:
    deadly = [Sample(b'{"x": 1, "do": "exit"}', JSON)]
    session = ProfileSession(settings, deadly, child_environment(), lambda _: None)
    with pytest.raises(ModelFailureError, match="exit code 7"):
        session.measure(["v1"], Goal(10, 1.0), Effort(1, 0.05, 1.0))


def test_a_version_that_does_not_load_says_why(settings: Settings) -> None:
    with (
        pytest.raises(ConfigurationError, match="never loads"),
        ModelBench(settings, ServedVersion("test", "refuses", 0), child_environment()),
    ):
        pass


def test_a_class_gives_its_example_from_a_process_of_its_own(settings: Settings, tmp_path: Path) -> None:
    example = read_example(settings, ServedVersion("test", "v1", 0), child_environment())
    assert example is None or isinstance(example, Sample)
    with pytest.raises(ConfigurationError, match="missing"):
        read_example(settings, ServedVersion("test", "missing", 0), child_environment())


def test_the_command_measures_chooses_writes_and_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path / "store")
    config, data, written = tmp_path / "headrace.yaml", tmp_path / "rows.jsonl", tmp_path / "chosen.yaml"
    config.write_text(
        f"store: {{root: store, cache_dir: '{tmp_path / 'cache'}'}}\n"
        "model: {classes: {obedient: 'tests.models.obedient:Obedient'}}\nworker: {commit_interval_ms: 20}\n"
    )
    data.write_text('{"x": 1}\n{"x": 2}\n')
    monkeypatch.setattr("stream_workers.profiling.setups.cores", lambda: 1)
    monkeypatch.setenv("PYTHONPATH", str(CHECKOUT))
    command = ["profile", "test@v1", "--rate", "20", "--p99-ms", "2000", "--config", str(config), "--data", str(data)]
    command += ["--max-batch-size", "2", "--seconds", "0.05", "--write", str(written)]
    assert main(command) == ExitCode.OK
    shown = capsys.readouterr().out
    assert "chosen" in shown
    assert "knee" in shown
    settings = load_settings(written, {})
    assert settings.batching.max_batch_size in (1, 2)
    assert settings.worker.commit_interval_ms == 20
    assert settings.model.instances == 1

    assert main([*command[:3], "9999999", *command[4:]]) == ExitCode.FAILED
    assert "the largest rate within it is" in capsys.readouterr().err
    assert "HEADRACE" not in " ".join(os.environ)
