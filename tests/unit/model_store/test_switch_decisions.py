from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.switch_decisions import (
    Decision,
    WorkerState,
    check_start,
    choose_instant,
    count_ms_to_decide,
    judge_arming,
    judge_preparation,
)
from model_store.switch_request import Instant, Quorum, SwitchRequest
from model_store.timeline import CALL_OFF_MARGIN_MS, Timeline
from model_store.worker_reports import Refusal, Roster, WorkerReport
from schemas.errors import ConfigurationError, PointerConflictError

OURS, OTHERS = "0" * 16, "f" * 16
TWO = Timeline().with_activation("a", 0, 0).with_activation("b", 1, 0)


def report(worker: str = "w0", **changes: Any) -> WorkerReport:
    return WorkerReport(worker, **{"slot": 0, "host": "host-1", "pid": 42, "epoch": 2, **changes})


READY = {"ready": OURS}
LOADING = {"preparing": OURS}
UNWILLING = {"refused": Refusal(OURS, "wrong hash")}
FACTS = st.sampled_from([READY, LOADING, UNWILLING, {}, {"ready": OTHERS}, {"refused": Refusal(OTHERS, "old news")}])
QUORUMS = st.one_of(
    st.just(Quorum()), st.builds(Quorum, count=st.integers(1, 6)), st.builds(Quorum, percent=st.integers(1, 100))
)


def roster(facts: Sequence[dict[str, Any]], unreadable: int = 0) -> Roster:
    return Roster(
        tuple(report(f"w{n}", **fact) for n, fact in enumerate(facts)), tuple(f"x{n}" for n in range(unreadable))
    )


@given(st.lists(FACTS, max_size=6), st.integers(0, 2), QUORUMS, st.booleans())
def test_a_switch_goes_ahead_exactly_when_enough_live_workers_are_ready(
    facts: list[dict[str, Any]], unreadable: int, quorum: Quorum, is_late: bool
) -> None:
    verdict = judge_preparation(roster(facts, unreadable), set(), OURS, quorum, 0.0 if is_late else 1.0)

    live = len(facts) + unreadable
    enough = live > 0 and facts.count(READY) >= quorum.count_needed(live)
    assert (verdict.decision is Decision.GO) == enough
    assert (verdict.decision is Decision.STOP) == bool(verdict.reason)
    if is_late:
        assert verdict.decision is not Decision.WAIT


@given(st.lists(FACTS, max_size=6), QUORUMS)
def test_a_refusal_stops_at_once_when_it_leaves_too_few_and_is_named(
    facts: list[dict[str, Any]], quorum: Quorum
) -> None:
    verdict = judge_preparation(roster(facts), set(), OURS, quorum, 1.0)

    refused = facts.count(UNWILLING)
    too_few = refused > 0 and len(facts) - refused < quorum.count_needed(len(facts))
    assert (verdict.decision is Decision.STOP) == too_few
    if too_few:
        assert verdict.reason.count("on host-1 refused: wrong hash") == refused


def test_one_refusal_of_two_stops_a_switch_that_needs_all() -> None:
    verdict = judge_preparation(roster([READY, UNWILLING]), set(), OURS, Quorum(), 1.0)

    assert verdict.reason == "worker w1 on host-1 refused: wrong hash"


def test_what_was_said_about_another_candidate_counts_for_nothing() -> None:
    verdict = judge_preparation(roster([{"ready": OTHERS}]), set(), OURS, Quorum(), 1.0)

    assert verdict.decision is Decision.WAIT
    assert verdict.rows[0].state is WorkerState.SILENT


def test_a_worker_that_vanishes_is_shown_and_counts_no_more() -> None:
    verdict = judge_preparation(roster([READY]), {"w0", "w9"}, OURS, Quorum(), 1.0)

    assert verdict.decision is Decision.GO
    assert [(row.worker, row.state) for row in verdict.rows] == [("w0", WorkerState.READY), ("w9", WorkerState.GONE)]


def test_a_worker_that_appears_has_to_be_ready_too() -> None:
    assert judge_preparation(roster([READY]), set(), OURS, Quorum(), 1.0).decision is Decision.GO
    assert judge_preparation(roster([READY, {}]), {"w0"}, OURS, Quorum(), 1.0).decision is Decision.WAIT


def test_when_all_vanish_nothing_goes_ahead() -> None:
    assert judge_preparation(Roster(), {"w0"}, OURS, Quorum(), 1.0).decision is Decision.WAIT
    late = judge_preparation(Roster(), {"w0"}, OURS, Quorum(), 0.0)
    assert (late.decision, late.reason) == (Decision.STOP, "no worker lives any more")


def test_who_was_late_is_named() -> None:
    late = judge_preparation(roster([READY, LOADING, {}], unreadable=1), {"w9"}, OURS, Quorum(), 0.0)

    assert late.reason == (
        "1 of 4 workers were ready in time, 4 are needed: worker w1 on host-1 preparing;"
        " worker w2 on host-1 has not answered; worker x0 report unreadable"
    )


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=5), st.integers(0, 2), st.integers(-500, 500))
def test_a_switch_is_confirmed_exactly_when_every_live_worker_is_armed(
    workers: list[tuple[int, bool]], unreadable: int, ms_left: int
) -> None:
    facts = [{"epoch": epoch, "warm": ("b",) if is_warm else ()} for epoch, is_warm in workers]
    verdict = judge_arming(roster(facts, unreadable), {"w9"}, 3, {"b"}, ms_left)

    armed = all(epoch >= 3 and is_warm for epoch, is_warm in workers) and not unreadable and bool(workers)
    expected = Decision.GO if armed else Decision.WAIT if ms_left > 0 else Decision.STOP
    assert verdict.decision is expected


def test_who_was_not_armed_is_named() -> None:
    late = judge_arming(roster([{"epoch": 3}, {"epoch": 2}], unreadable=1), {"w9"}, 3, set(), 0)

    assert late.reason == "not armed in time: w1, x0"
    assert judge_arming(Roster(), {"w9"}, 3, set(), 0).reason == "no worker lives that could be armed"


@given(st.integers(10_000, 2**41))
def test_what_is_decided_at_the_last_moment_can_still_be_called_off(instant: int) -> None:
    timeline = Timeline().with_activation("a", 0, 0).with_activation("b", 1, 0, effective_from_ms=instant)
    last_moment = count_ms_to_decide(instant, 0)

    assert count_ms_to_decide(instant, last_moment) == 0
    assert timeline.with_called_off(2, last_moment).epoch == 3
    assert last_moment < instant - CALL_OFF_MARGIN_MS


def request(instant: Instant | None = Instant(), **changes: Any) -> SwitchRequest:
    return SwitchRequest({"c": 1}, instant, **changes)


def test_a_switch_that_can_work_is_begun() -> None:
    for instant in (Instant(), Instant(5000), Instant(at_ms=12_000), None):
        check_start(request(instant), TWO, roster([{}]), 10_000)


@pytest.mark.parametrize("instant", [Instant(1999), Instant(at_ms=11_999), Instant(at_ms=5)])
def test_a_lead_that_is_too_short_while_workers_live_is_refused(instant: Instant) -> None:
    with pytest.raises(ConfigurationError, match="needs 2 s ahead"):
        check_start(request(instant), TWO, roster([{}]), 10_000)


def test_without_a_worker_any_instant_that_is_not_over_will_do() -> None:
    check_start(request(Instant(1)), TWO, Roster(), 10_000)
    with pytest.raises(ConfigurationError, match="needs 0 s ahead"):
        check_start(request(Instant(at_ms=9_999)), TWO, Roster(), 10_000)


def test_no_switch_begins_while_another_one_is_armed() -> None:
    armed = TWO.with_activation("a", 2, 0, effective_from_ms=10_500)

    with pytest.raises(PointerConflictError, match=r"epoch 3 takes effect in 0\.5 s"):
        check_start(request(), armed, roster([{"epoch": 3}]), 10_000)
    check_start(request(), armed, roster([{"epoch": 3}]), 10_500)


def test_an_expected_epoch_that_is_not_there_is_refused_before_anything_is_prepared() -> None:
    with pytest.raises(PointerConflictError, match="epoch is 2, not 1"):
        check_start(request(expected_epoch=1), TWO, roster([{}]), 0)
    check_start(request(expected_epoch=2), TWO, roster([{}]), 0)


def test_workers_that_know_more_than_redis_are_noticed() -> None:
    with pytest.raises(ConfigurationError, match=r"w0 holds epoch 41 and Redis 2.*--floor-epoch 41"):
        check_start(request(), TWO, roster([{"epoch": 41}]), 0)
    check_start(request(floor_epoch=41), TWO, roster([{"epoch": 41}]), 0)


def test_a_first_switch_and_one_that_nobody_waits_for_take_effect_at_once() -> None:
    assert choose_instant(request(), Timeline(), roster([{}])) is None
    assert choose_instant(request(), TWO, Roster()) is None
    assert choose_instant(request(Instant(9000)), TWO, Roster()) == Instant(9000)
    assert choose_instant(request(), TWO, roster([{}])) == Instant()
    assert choose_instant(request(None), TWO, roster([{}])) is None


def test_an_instant_for_a_first_decision_is_refused_and_not_passed_over() -> None:
    with pytest.raises(ConfigurationError, match="--at: a model's first decision is one from now on"):
        check_start(request(Instant(at_ms=60_000)), Timeline(), Roster(), 0)
    check_start(request(), Timeline(), Roster(), 0)
    check_start(request(None), Timeline(), Roster(), 0)


@pytest.mark.parametrize(
    ("at_ms", "said"), [(10_400, ""), (4_000, ""), (0, ""), (10_600, "0.6 s ahead of"), (3_400, "6.6 s behind")]
)
def test_an_exact_switch_needs_clocks_that_agree_and_one_from_now_on_does_not(at_ms: int, said: str) -> None:
    timeline = Timeline().with_activation("a", 0, 0).with_activation("b", 1, 0)
    workers = roster([{"at_ms": at_ms}])
    check_start(SwitchRequest({"c": 1}, None), timeline, workers, 10_000)
    if not said:
        check_start(SwitchRequest({"c": 1}), timeline, workers, 10_000)
        return
    with pytest.raises(ConfigurationError, match=f"the clock of worker w0 is {said} this one's"):
        check_start(SwitchRequest({"c": 1}), timeline, workers, 10_000)


def test_an_exact_switch_is_not_moved_behind_the_instant_of_one_that_was_ended_but_refused() -> None:
    armed = TWO.with_activation("c", 2, 1000, effective_from_ms=9_000_000)
    ended = armed.with_rollback(None, 3, 2000)
    with pytest.raises(ConfigurationError, match="cannot come before 1970-01-01T02:30"):
        check_start(SwitchRequest({"d": 1}), ended, roster([{}]), 3000)
    check_start(SwitchRequest({"d": 1}, None), ended, roster([{}]), 3000)
    check_start(SwitchRequest({"d": 1}, Instant(at_ms=9_000_000)), ended, roster([{}]), 3000)


def test_an_instant_years_ahead_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="at most 168 hours ahead"):
        check_start(SwitchRequest({"d": 1}, Instant(at_ms=10**12)), TWO, roster([{}]), 3000)
