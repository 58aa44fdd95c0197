"""A worker with a shadow: answers, commits, drains and switches are as without one, whatever the shadow does."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.shadow import Shadow
from schemas.records import Stage
from stream_workers.batching.work import Answer
from stream_workers.pipeline.contract import BatchLost, BatchOutcome, RecordRefused, Residency
from stream_workers.shadowing.desk import ShadowDesk
from tests.unit.stream_workers.worker_rig import P0, Rig, fill

SHADOW = Shadow("v2")
MAX_BYTES = 10_000


class FakeCourier:
    def __init__(self) -> None:
        self.trouble = ""
        self.has_no_topic = self.closed = False
        self.takes = True
        self.outcomes: list[BatchOutcome] = []

    def start(self) -> None: ...

    def offer(self, outcome: BatchOutcome) -> bool:
        if self.takes:
            self.outcomes.append(outcome)
        return self.takes

    def close(self, wait_seconds: float = 0.0) -> None:
        self.closed = True


class FakeSource:
    shadow: Shadow | None = None


class ShadowRig(Rig):
    """A worker whose shadow, v2, is loaded from the start."""

    def __init__(self, shadow: Shadow | None = SHADOW, **options: Any) -> None:
        super().__init__(**options)
        self.decided = FakeSource()
        self.couriers: list[FakeCourier] = []
        self.desk = ShadowDesk(
            self.decided, self.pool, self._make_courier, self.parts.metrics.shadow, max_bytes=MAX_BYTES
        )
        self.parts.shadow = self.desk
        self.pool.shadow = "v2"
        self.decided.shadow = shadow
        self.member.assign(P0)
        self.turn()

    def _make_courier(self) -> FakeCourier:
        self.couriers.append(FakeCourier())
        return self.couriers[-1]

    def compared(self) -> list[int]:
        """Offsets, in the order in which they were compared."""
        return [
            item.request.offset
            for courier in self.couriers
            for outcome in courier.outcomes
            for item in outcome.batch.items
        ]

    def dropped(self) -> dict[str, int]:
        (family,) = self.parts.metrics.shadow.dropped.collect()
        counts = [sample for sample in family.samples if sample.name.endswith("_total")]
        return {sample.labels["reason"]: int(sample.value) for sample in counts}


def run(rig: Rig, records: int, turns: int = 30) -> None:
    fill(rig, 0, records)
    rig.turn(turns)


def test_each_answered_record_is_copied_once_and_its_outcome_is_the_active_versions() -> None:
    rig = ShadowRig()
    run(rig, 3)
    rig.pool.finish_copies()
    rig.turn(3)
    assert rig.compared() == [0, 1, 2]
    assert {type(item.outcome) for item in rig.settlement.outcomes} == {Answer}
    assert {item.outcome.version.version for item in rig.settlement.outcomes} == {"v1"}  # type: ignore[union-attr]
    assert {batch.version.version for batch in rig.pool.batches} == {"v1"}


def test_a_copy_is_begun_only_when_its_batch_is_answered_and_a_process_that_answers_is_idle() -> None:
    rig = ShadowRig()
    rig.pool.holds = True
    run(rig, 4)
    assert rig.pool.batches
    assert not rig.pool.copies
    rig.pool.holds = False
    rig.turn(2)
    assert [item.request.offset for batch in rig.pool.copies for item in batch.items] == [0, 1, 2, 3]


def test_while_every_process_that_answers_is_busy_no_copy_is_begun() -> None:
    rig = ShadowRig()
    rig.pool.shadow_slots = 0
    run(rig, 4)
    rig.pool.shadow_slots = 2
    rig.pool.holds = True
    run(rig, 4)
    assert not rig.pool.copies


def plain_outcomes(records: int) -> list[tuple[int, int, type]]:
    rig = Rig()
    rig.member.assign(P0)
    run(rig, records)
    return rig.kinds()


def raise_error(*_: object) -> None:
    raise RuntimeError("broken")


def hang(rig: ShadowRig) -> None: ...


def crash(rig: ShadowRig) -> None:
    rig.pool.lose_copies()


def refuse(rig: ShadowRig) -> None:
    rig.pool.shadow_answers = lambda _: RecordRefused(Stage.MODEL, "model_failure", "RuntimeError", "no")
    rig.pool.finish_copies()


def vanish(rig: ShadowRig) -> None:
    rig.pool.shadow = ""
    rig.pool.lose_copies(suspect=False)


def stop_writing(rig: ShadowRig) -> None:
    rig.pool.finish_copies()
    for courier in rig.couriers:
        courier.takes = False


def break_pool(rig: ShadowRig) -> None:
    rig.pool.submit_copy = raise_error  # type: ignore[method-assign]


def break_copying(rig: ShadowRig) -> None:
    rig.desk._copy = raise_error  # type: ignore[method-assign]


@pytest.mark.parametrize("misbehave", [hang, crash, refuse, vanish, stop_writing, break_pool, break_copying])
def test_whatever_becomes_of_a_shadow_every_record_has_its_outcome_and_is_committed(
    misbehave: Callable[[ShadowRig], None],
) -> None:
    rig = ShadowRig()
    for count in range(10):
        fill(rig, 0, 4)
        rig.turn(4)
        misbehave(rig)
        assert len(rig.settlement.outcomes) == 4 * (count + 1), "in time, too"
    assert rig.kinds() == plain_outcomes(40)
    assert not rig.parts.breaker.is_open


def test_what_goes_wrong_in_the_shadows_own_code_switches_it_off_and_says_so() -> None:
    rig = ShadowRig()
    assert rig.desk.wanted == "v2"
    break_copying(rig)
    run(rig, 4)
    assert rig.desk.wanted is None
    report = rig.desk.report()
    assert report is not None
    assert report.state == "switched off by RuntimeError, see this worker's log"


def test_a_shadow_that_hangs_holds_up_neither_a_drain_nor_a_stop() -> None:
    rig = ShadowRig()
    run(rig, 8)
    assert rig.pool.copies
    began = rig.now
    rig.worker.let_go([P0], began + 5.0)
    rig.worker.finish()
    assert rig.now - began < 1.0
    assert len(rig.settlement.outcomes) == 8


def test_copies_of_a_shadow_that_does_not_keep_up_are_bounded_and_counted() -> None:
    rig = ShadowRig(max_batch_size=1)
    run(rig, 200, turns=250)
    assert len(rig.settlement.outcomes) == 200
    assert rig.desk._waiting.bytes <= MAX_BYTES
    held = len(rig.desk._waiting) + len(rig.pool.copies)
    assert rig.dropped() == {"busy": 200 - held}


def test_nothing_is_held_for_a_version_that_is_not_loaded() -> None:
    rig = ShadowRig()
    rig.pool.shadow = ""
    run(rig, 8)
    assert not rig.desk._waiting
    assert rig.dropped() == {"not_loaded": 8}


def test_a_process_that_ends_fails_what_it_had_begun_and_loses_the_rest() -> None:
    rig = ShadowRig()
    run(rig, 4)
    rig.pool.lose_copies()
    rig.turn()
    (outcome,) = rig.couriers[0].outcomes
    assert isinstance(outcome, BatchLost)
    run(rig, 4)
    rig.pool.lose_copies(suspect=False)
    rig.turn()
    assert rig.dropped() == {"lost": 4}


def test_stopping_it_drops_what_waits_and_what_comes_late() -> None:
    rig = ShadowRig()
    run(rig, 4)
    assert rig.pool.copies
    rig.decided.shadow = None
    rig.turn(2)
    rig.pool.finish_copies()
    run(rig, 4)
    assert rig.couriers[0].closed
    assert (rig.compared(), rig.desk.wanted, rig.desk.report()) == ([], None, None)
    assert len(rig.settlement.outcomes) == 8


def test_a_version_that_answers_is_not_copied_to_itself() -> None:
    rig = ShadowRig(Shadow("v1"))
    rig.pool.shadow = "v1"
    run(rig, 4)
    assert not rig.pool.copies


def test_without_its_topic_a_version_is_not_asked_for_and_the_reason_is_told() -> None:
    rig = ShadowRig()
    rig.couriers[0].has_no_topic, rig.couriers[0].trouble = True, "no topic: run `headrace topics create`"
    assert rig.desk.wanted is None
    report = rig.desk.report()
    assert report is not None
    assert report.state == "no topic: run `headrace topics create`"


def test_a_report_says_what_the_processes_are_doing() -> None:
    rig = ShadowRig()
    states = []
    for shadow, state in (("", ""), ("", "waits for room: a, b are loaded"), ("v3", "runs"), ("v2", "runs")):
        rig.pool.told = Residency(("v1",), shadow=shadow, shadow_state=state)
        report = rig.desk.report()
        assert report is not None
        states.append(report.state)
    assert states == ["loading", "waits for room: a, b are loaded", "loading", "runs"]


def test_another_share_goes_on_with_the_same_courier() -> None:
    rig = ShadowRig()
    rig.decided.shadow = Shadow("v2", 0.001)
    rig.turn()
    run(rig, 8)
    assert len(rig.couriers) == 1
    assert not rig.pool.copies
    rig.decided.shadow = Shadow("v3")
    rig.turn()
    assert (len(rig.couriers), rig.couriers[0].closed) == (2, True)


@given(st.lists(st.sampled_from(["fill", "turn", "answer", "lose", "stop", "start", "hold", "go on"]), max_size=40))
def test_in_any_order_each_record_is_answered_once_and_every_copy_is_accounted_for(steps: list[str]) -> None:
    rig = ShadowRig()
    sent = 0
    for step in steps:
        if step == "fill":
            fill(rig, 0, 3)
            sent += 3
        elif step == "answer":
            rig.pool.finish_copies()
        elif step == "lose":
            rig.pool.lose_copies()
        elif step in ("stop", "start"):
            rig.decided.shadow = SHADOW if step == "start" else None
        elif step in ("hold", "go on"):
            rig.pool.holds = step == "hold"
        rig.turn()
    rig.pool.holds = False
    rig.turn(20 + sent)
    assert [item.request.offset for item in rig.settlement.outcomes] == list(range(sent))
    waiting = sum(len(batch.items) for batch in (*rig.pool.copies, *rig.desk._waiting._waiting))
    assert len(rig.compared()) + sum(rig.dropped().values()) + waiting <= sent
