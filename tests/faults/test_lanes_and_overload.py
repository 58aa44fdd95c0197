"""Urgent lanes, deadlines under overload and live streams, on a model whose batches take a fixed time."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from producers.outcomes import Outcome
from schemas.records import Position, Result, Status
from tests.faults.conftest import Rig
from tests.faults.exchange import Exchange, Raw
from tests.faults.harness import FaultRun
from tests.faults.load import LoadShape
from tests.models import store_builder

BATCH_SECONDS = 0.1
BATCH = 8
PARTITIONS = 2
SHARE = 0.25
OVERLOAD_SECONDS = 6.0
PATIENCE_SECONDS = 1.0

pytestmark = pytest.mark.timeout(180)


def body(x: int) -> bytes:
    return json.dumps({"x": x}).encode()


def start(run: FaultRun, **batching: Any) -> None:
    store_builder.publish(run.folder / "store", model_class="tardy", batch_seconds=BATCH_SECONDS)
    run.start_worker(
        model={"name": "test", "version": "v1", "classes": store_builder.CLASSES},
        batching={"max_batch_size": BATCH, "max_wait_ms": 5, "lowest_share": SHARE, **batching},
    )


def rows(count: int, topic: str = "", key: bytes = b"k") -> list[Raw]:
    return [Raw(body(n), key=key, partition=n % PARTITIONS, topic=topic) for n in range(count)]


def statuses(outcomes: list[Outcome]) -> Counter[Status]:
    return Counter(outcome.status for outcome in outcomes if isinstance(outcome, Result))


def test_an_urgent_record_passes_what_waits_and_the_low_lane_keeps_its_share(
    rig: Rig, unique: str, tmp_path: Path
) -> None:
    with FaultRun(rig, unique, tmp_path, partitions=PARTITIONS, proxied=False, urgent=True) as run:
        start(run)
        urgent_topic = run.topics.requests[1]
        with Exchange(run) as exchange:
            low = exchange.send(rows(40 * BATCH))
            exchange.collect(low[:BATCH])
            for _ in range(5):
                before = len(exchange.in_order)
                exchange.ask(*rows(1, urgent_topic))
                # The batch that ran, one of the low lane's share, and what became visible in the same commit.
                passed = len(exchange.in_order) - before - 1
                assert passed <= 4 * BATCH
            assert len(exchange.in_order) < len(low), "the low lane was still at work"
            exchange.collect(low, 60)

            flood = exchange.send(rows(40 * BATCH, urgent_topic))
            low = exchange.send(rows(4 * BATCH))
            exchange.collect([*flood, *low], 90)
            last_low = max(exchange.in_order.index(position) for position in low)
            first = exchange.in_order.index(flood[0])
            # Urgent batches are a quarter of the size: the share of the low lane is by batches.
            assert last_low - first < len(flood) * 0.75, "the low lane starved"
        run.finish().check()


def test_under_overload_the_model_works_for_those_it_can_still_answer(rig: Rig, unique: str, tmp_path: Path) -> None:
    capacity = BATCH / BATCH_SECONDS
    shape = LoadShape(3 * capacity, payload=body, deadline_seconds=lambda _: PATIENCE_SECONDS)
    with FaultRun(rig, unique, tmp_path, partitions=PARTITIONS, proxied=False) as run:
        start(run)
        with Exchange(run) as exchange:
            began = time.monotonic()
            exchange.ask(*rows(20 * BATCH), seconds=60)
            capacity = 20 * BATCH / (time.monotonic() - began)
            before = len(exchange.outcomes)
            with run.load(shape) as load:
                over_at = time.monotonic() + OVERLOAD_SECONDS
                while time.monotonic() < over_at:
                    exchange.read()
            run.wait_until_drained()
            exchange.read(1.0)
            under_load = [found[0] for found in list(exchange.outcomes.values())[before:]]
            counts = statuses(under_load)
            assert counts[Status.OK] >= 0.8 * capacity * OVERLOAD_SECONDS, counts
            assert counts[Status.EXPIRED] > counts[Status.OK]
            # What comes after it is served as if nothing had been.
            calm = exchange.send([Raw(body(1), [("ce_deadline", deadline())], partition=n % 2) for n in range(BATCH)])
            assert statuses(exchange.collect(calm)) == {Status.OK: BATCH}
        run.finish(load).check()


def deadline() -> str:
    return str(int((time.time() + PATIENCE_SECONDS) * 1000))


def test_a_live_stream_drops_its_oldest_and_answers_for_every_one(rig: Rig, unique: str, tmp_path: Path) -> None:
    with FaultRun(rig, unique, tmp_path, partitions=PARTITIONS, proxied=False) as run:
        start(run, overload="drop_oldest")
        with Exchange(run) as exchange:
            exchange.ask(*rows(2, key=b"calm"))
            flood = exchange.send(rows(30 * BATCH, key=b"camera"))
            outcomes = exchange.collect(flood, 30)
            counts = statuses(outcomes)
            assert counts[Status.SUPERSEDED] > counts[Status.OK] > 0
            assert set(counts) == {Status.OK, Status.SUPERSEDED}
            newest = {position.partition: position for position in sorted(flood)}
            assert all(is_ok(exchange, position) for position in newest.values())
        run.finish().check()


def is_ok(exchange: Exchange, position: Position) -> bool:
    outcome = exchange.outcomes[position][0]
    return isinstance(outcome, Result) and outcome.status is Status.OK
