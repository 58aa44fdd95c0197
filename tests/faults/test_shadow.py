"""A shadow beside a worker under load: it costs no answer anything, whatever becomes of its processes."""

import json
import signal
from pathlib import Path

import psutil
import pytest

from headrace.cli import main
from headrace.cli.exit_codes import ExitCode
from producers.shadow_reader import ShadowReader
from schemas.shadow_records import ShadowRecord
from stream_workers.pipeline.model_process import SHADOW_NICENESS
from tests.faults.conftest import Rig
from tests.faults.harness import MODEL, FaultRun, publish_example_model
from tests.faults.load import LoadShape
from tests.faults.switches import Switches, read_met
from tests.faults.worker_process import Role, wait_until

SHAPE = LoadShape(records_per_second=150, streams=30)
LONGEST_PAUSE_SECONDS = 1.0
ENOUGH = 50

pytestmark = pytest.mark.timeout(120)


class ShadowRun:
    """The commands, and what they bring about."""

    def __init__(self, run: FaultRun, switches: Switches) -> None:
        self.run = run
        self._switches = switches

    def models(self, *arguments: str) -> int:
        return main(["models", *arguments, "--config", str(self.run.folder / "worker.yaml")])

    def processes(self) -> list[psutil.Process]:
        return [one for one in self.run.worker.processes(Role.MODEL_PROCESS) if one.nice() == SHADOW_NICENESS]

    def await_state(self, state: str) -> None:
        def has_it() -> bool:
            reports = self._switches.reports()
            return bool(reports) and all(one.shadow is not None and one.shadow.state == state for one in reports)

        wait_until(has_it, 20, f"the shadow {state}; {self._switches.reports()}")

    def read(self) -> list[ShadowRecord]:
        with ShadowReader(self.run.rig.direct, self.run.topics.shadow) as reader:
            return [record for record in reader.read(follow=False) if record is not None]

    def await_more(self) -> int:
        """Wait until enough more copies were answered; returns how many there are."""
        before = count_answered(self.read())
        wait_until(lambda: count_answered(self.read()) >= before + ENOUGH, 20, f"{before + ENOUGH} comparisons")
        return before


def count_answered(records: list[ShadowRecord]) -> int:
    return sum(record.body.failure is None for record in records)


def test_a_shadow_of_other_weights_is_compared_killed_and_stopped_and_no_answer_is_late_or_lost(
    rig: Rig, unique: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FaultRun(rig, unique, tmp_path, proxied=False) as run:
        publish_example_model(run.folder / "store")
        publish_example_model(run.folder / "store", "v2", seed=1)
        switches = Switches(run)
        switches.activate("v1")
        run.start_worker(**switches.settings(batching={"max_batch_size": 16}))
        shadow = ShadowRun(run, switches)

        assert shadow.models("shadow", MODEL, "v2") == ExitCode.USAGE
        assert f"has no topic {run.topics.shadow}: run `headrace topics create`" in capsys.readouterr().err
        rig.create_topics(run.topics.shadow)
        with run.load(SHAPE) as load:
            assert shadow.models("shadow", MODEL, "v2", "--reason", "other seed") == ExitCode.OK
            shadow.await_state("runs")
            shadow.await_more()
            (victim,) = shadow.processes()
            victim.send_signal(signal.SIGKILL)
            wait_until(lambda: shadow.processes() not in ([victim], []), 20, "another process")
            shadow.await_state("runs")
            shadow.await_more()
            assert shadow.models("shadow", MODEL, "--stop") == ExitCode.OK
            wait_until(lambda: not shadow.processes(), 10, "its process is released")
        outcome = run.finish(load, decisions=switches.decisions)

        outcome.check()
        met = read_met(run)
        assert len(met) == load.acknowledged + 1, "the probe is one more"
        assert set(met.values()) == {("v1", 1)}
        assert outcome.longest_pause_seconds < LONGEST_PAUSE_SECONDS
        records = shadow.read()
        sources = {(one.body.source.topic, one.body.source.partition, one.body.source.offset) for one in records}
        assert sources <= met.keys()
        assert len(sources) == len(records), "each copy is told once"
        assert {(one.version, one.epoch, one.shadow) for one in records} == {("v1", 1, "v2")}
        answered = [one.body for one in records if one.body.failure is None]
        assert all(not body.equal and body.only_numbers and body.max_difference for body in answered)
        capsys.readouterr()
        assert shadow.models("compare", MODEL, "--format", "jsonl") == ExitCode.OK
        (line,) = map(json.loads, capsys.readouterr().out.splitlines())
        assert (line["version"], line["shadow"], line["count"]) == ("v1", "v2", len(records))
