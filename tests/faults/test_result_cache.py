"""A worker with the result cache on: repeats are answered without the model, and nothing that was promised changes."""

from pathlib import Path
from typing import Any

import pytest

from producers.outcomes import decode_outcome
from producers.result_reader import RecordReader
from schemas.records import Result
from tests.faults.conftest import Rig
from tests.faults.harness import FaultRun
from tests.faults.load import LoadShape, numbers_row
from tests.faults.worker_process import Role, wait_until

CONTENTS = 20

pytestmark = pytest.mark.timeout(180)


def repeated_row(nth: int) -> bytes:
    return numbers_row(nth % CONTENTS)


def results_of(run: FaultRun) -> list[Result]:
    with RecordReader(run.rig.direct, [run.topics.results], start="earliest") as reader:
        records = list(reader.read_until(reader.end_offsets(), timeout_seconds=30))
    outcomes: list[Any] = [decode_outcome(record, dead_letters_topic=run.topics.dead_letters) for record in records]
    assert all(isinstance(outcome, Result) for outcome in outcomes)
    return outcomes


def check_hits(results: list[Result], record_property: Any) -> None:
    """Most were answered from the cache, each with bytes that the model wrote, by the version that wrote them."""
    ran = {bytes(result.output or b"") for result in results if result.timings.batch_size}
    hits = [result for result in results if not result.timings.batch_size]
    record_property("hits", f"{len(hits)} of {len(results)}")
    assert len(hits) > len(results) / 2
    assert {bytes(hit.output or b"") for hit in hits} <= ran
    assert {(result.model, result.version) for result in results} == {("mlp", "v1")}


def test_repeats_are_answered_from_redis_and_memory_through_the_kill_of_a_member(
    rig: Rig, unique: str, tmp_path: Path, record_property: Any
) -> None:
    with FaultRun(rig, unique, tmp_path) as run:
        run.start_worker(
            members=2,
            cache={"enabled": True, "redis": True, "redis_wait_ms": 100},
            redis={"url": rig.stack.redis_url, "prefix": unique[-40:].strip("-")},
        )
        with run.load(LoadShape(records_per_second=150, payload=repeated_row)) as load:
            wait_until(lambda: load.acknowledged > 400, 60, "400 sent")
            run.worker.kill(Role.MEMBER, 0)
            wait_until(lambda: load.acknowledged > 1000, 60, "1000 sent")
        run.finish(load).check()
        check_hits(results_of(run), record_property)


def test_a_redis_that_is_not_there_costs_no_record(rig: Rig, unique: str, tmp_path: Path, record_property: Any) -> None:
    with FaultRun(rig, unique, tmp_path) as run:
        run.start_worker(cache={"enabled": True, "redis": True}, redis={"url": "redis://127.0.0.1:1/0"})
        with run.load(LoadShape(records_per_second=150, payload=repeated_row)) as load:
            wait_until(lambda: load.acknowledged > 400, 60, "400 sent")
        run.finish(load).check()
        check_hits(results_of(run), record_property)
        assert run.count_in_log('"cached answers cannot be had"') > 0
