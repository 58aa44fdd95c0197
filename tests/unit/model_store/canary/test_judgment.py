import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.canary.judgment import MIN_MEASURED, Judgment, Step, compare_versions, judge_silence, judge_stage
from model_store.canary.plan import CanaryPlan, Thresholds
from model_store.canary.tally import Kind, Observation, Tally

PLAN = CanaryPlan("new", quality_path=("q",))
NO_QUALITY = CanaryPlan("new")
EARLY, AT_END, TOO_LATE = 10.0, 60.0, 120.0


def tally(
    ok: int = 0,
    *,
    dead: int = 0,
    expired: int = 0,
    unmeasured: int = 0,
    latency_ms: float = 40.0,
    quality: float | None = None,
) -> Tally:
    made = Tally()
    for number in range(ok):
        spread = 0.9 + 0.2 * (number % 10) / 9
        level = None if quality is None else quality * spread
        made.add(Observation(Kind.OK, latency_ms * spread, 1, level))
    for kind, count in ((Kind.DEAD_LETTERED, dead), (Kind.EXPIRED, expired), (Kind.UNMEASURED, unmeasured)):
        for _ in range(count):
            made.add(Observation(kind))
    return made


def test_nothing_is_decided_before_there_are_enough_results() -> None:
    judgment = judge_stage(tally(dead=199), tally(1000), NO_QUALITY, EARLY)

    assert judgment == Judgment(Step.WAIT, "199 of 200 results needed, 1000 of the version before")
    assert judge_stage(tally(500), tally(199), NO_QUALITY, EARLY).step is Step.WAIT


def test_too_little_traffic_waits_one_more_window_and_then_gives_up() -> None:
    few = tally(dead=199)

    assert judge_stage(few, tally(1000), NO_QUALITY, AT_END).reason.startswith(
        "too little traffic, one more window: 199"
    )
    assert judge_stage(few, tally(1000), NO_QUALITY, TOO_LATE - 0.1).step is Step.WAIT
    given_up = judge_stage(few, tally(1000), NO_QUALITY, TOO_LATE)
    assert given_up.step is Step.GIVE_UP
    assert "too little traffic in 2 windows: 199 of 200" in given_up.reason


def test_enough_results_in_the_second_window_decide_at_once() -> None:
    assert judge_stage(tally(200), tally(200), NO_QUALITY, AT_END + 1).step is Step.GO_ON
    assert judge_stage(tally(100, dead=100), tally(200), NO_QUALITY, AT_END + 1).step is Step.HALT


def test_equal_versions_wait_for_the_window_and_go_on() -> None:
    new, old = tally(300, dead=3), tally(3000, dead=30)

    assert judge_stage(new, old, NO_QUALITY, EARLY).step is Step.WAIT
    assert judge_stage(new, old, NO_QUALITY, AT_END).step is Step.GO_ON


@pytest.mark.parametrize("bad", [{"dead": 40}, {"expired": 40}, {"unmeasured": 40}, {"dead": 20, "expired": 20}])
def test_many_more_errors_of_any_kind_halt_at_once(bad: dict[str, int]) -> None:
    judgment = judge_stage(tally(260, **bad), tally(990, dead=10), NO_QUALITY, EARLY)

    assert judgment.step is Step.HALT
    assert judgment.reason.startswith("error rate 13.3% of 300 (")
    assert "against 1% of 1000" in judgment.reason
    assert "2 allowed" in judgment.reason


def test_some_more_errors_halt_when_the_window_is_over() -> None:
    new, old = tally(285, dead=15), tally(1000, dead=10)

    assert judge_stage(new, old, NO_QUALITY, EARLY).step is Step.WAIT
    assert judge_stage(new, old, NO_QUALITY, AT_END).step is Step.HALT


def test_an_increase_that_is_allowed_goes_on_however_sure_it_is() -> None:
    new, old = tally(98_500, dead=1500), tally(99_900, dead=100)

    assert judge_stage(new, old, NO_QUALITY, AT_END).step is Step.GO_ON


def test_fewer_errors_than_before_are_fine() -> None:
    assert judge_stage(tally(200), tally(100, dead=900), NO_QUALITY, AT_END).step is Step.GO_ON


def test_a_canary_that_is_much_slower_halts_at_once() -> None:
    judgment = judge_stage(tally(400, latency_ms=100.0), tally(1000), NO_QUALITY, EARLY)

    assert judgment.step is Step.HALT
    assert judgment.reason.startswith("latency p95 ")
    assert "1.5 allowed" in judgment.reason


def test_a_canary_that_is_a_little_slower_goes_on() -> None:
    assert judge_stage(tally(400, latency_ms=55.0), tally(1000), NO_QUALITY, AT_END).step is Step.GO_ON


def test_too_few_latencies_are_not_compared() -> None:
    plan = CanaryPlan("new", thresholds=Thresholds(min_results=50))

    assert judge_stage(tally(60, latency_ms=4000.0), tally(1000), plan, AT_END).step is Step.GO_ON


def test_a_quality_that_drops_halts() -> None:
    judgment = judge_stage(tally(300, quality=0.6), tally(300, quality=0.8), PLAN, EARLY)

    assert judgment.step is Step.HALT
    assert judgment.reason.startswith("quality 0.6 against 0.8: 0.2 lower, surely 0.")
    assert judge_stage(tally(300, quality=0.79), tally(300, quality=0.8), PLAN, AT_END).step is Step.GO_ON
    assert judge_stage(tally(300, quality=0.9), tally(300, quality=0.8), PLAN, AT_END).step is Step.GO_ON


def test_a_quality_that_no_version_has_is_not_taken_for_a_good_one() -> None:
    judgment = judge_stage(tally(unmeasured=300), tally(unmeasured=300), PLAN, TOO_LATE)

    assert judgment.step is Step.GIVE_UP
    assert f"0 of {MIN_MEASURED} answers with a quality needed" in judgment.reason


def test_a_quality_that_only_the_canary_lacks_halts() -> None:
    judgment = judge_stage(tally(unmeasured=300), tally(300, quality=0.8), PLAN, EARLY)

    assert judgment.step is Step.HALT
    assert "300 without the quality field" in judgment.reason


def test_silence_longer_than_a_window_is_named() -> None:
    assert judge_silence(60.0, 60.0, PLAN) == ""
    assert judge_silence(61.0, 0.0, PLAN) == "Redis has not answered for 61 s"
    assert judge_silence(0.0, 75.0, PLAN) == "Kafka has not answered for 75 s"


counted = st.builds(tally, st.integers(0, 300), dead=st.integers(0, 60), expired=st.integers(0, 60))
times = st.floats(0, 300)


@given(counted, counted, times)
def test_every_judgment_is_one_that_its_time_and_counts_allow(new: Tally, old: Tally, seconds: float) -> None:
    judgment = judge_stage(new, old, NO_QUALITY, seconds)

    is_enough = min(new.results, old.results) >= NO_QUALITY.thresholds.min_results
    if not is_enough:
        assert judgment.step is (Step.GIVE_UP if seconds >= TOO_LATE else Step.WAIT)
    elif seconds < AT_END:
        assert judgment.step in {Step.WAIT, Step.HALT}
    else:
        assert judgment.step in {Step.GO_ON, Step.HALT}
    assert judgment.reason
    assert judgment.reason.isprintable()
    assert len(judgment.reason) <= 200


@given(counted, counted, times, st.integers(1, 50))
def test_more_errors_never_save_a_canary(new: Tally, old: Tally, seconds: float, more: int) -> None:
    if judge_stage(new, old, NO_QUALITY, seconds).step is not Step.HALT:
        return
    for _ in range(more):
        new.add(Observation(Kind.DEAD_LETTERED))

    assert judge_stage(new, old, NO_QUALITY, seconds).step is Step.HALT


@given(st.integers(200, 400), st.integers(0, 100), st.integers(1, 3))
def test_the_same_results_on_both_sides_never_halt(ok: int, dead: int, times_more: int) -> None:
    new, old = tally(ok, dead=dead), tally(ok * times_more, dead=dead * times_more)

    assert judge_stage(new, old, NO_QUALITY, AT_END).step is Step.GO_ON


def test_every_criterion_with_enough_samples_is_compared() -> None:
    assert len(compare_versions(tally(300, quality=1.0), tally(300, quality=1.0), PLAN)) == 3
    assert len(compare_versions(tally(dead=300), tally(300), PLAN)) == 1


def simulate_canary(dice: random.Random, error_rate: float, *, increase: float = 0.0, slower: float = 1.0) -> Step:
    """The stages of a canary with ten looks each, 400 results of it and 400 to 1,200 of the version before."""
    for share in (0.1, 0.5):
        new, old = Tally(), Tally()
        for look in range(1, 11):
            for _ in range(40):
                new.add(draw(dice, error_rate + increase, slower))
            for _ in range(round(min(120, 40 * (1 - share) / share))):
                old.add(draw(dice, error_rate, 1.0))
            step = judge_stage(new, old, PLAN, AT_END * look / 10).step
            if step in {Step.HALT, Step.GIVE_UP}:
                return step
    return Step.GO_ON


def draw(dice: random.Random, error_rate: float, slower: float) -> Observation:
    if dice.random() < error_rate:
        return Observation(Kind.DEAD_LETTERED)
    return Observation(Kind.OK, slower * dice.lognormvariate(3.0, 0.5), 1, dice.gauss(0.8, 0.15))


# Measured with several seeds: 0 of 400 canaries at 1 % errors, 19 of 800 at 10 %, 131 of 5,500 at 30 %.
@pytest.mark.parametrize(("error_rate", "canaries"), [(0.01, 100), (0.3, 400)])
def test_an_equal_version_is_halted_by_mistake_in_fewer_than_one_canary_of_twenty(
    error_rate: float, canaries: int
) -> None:
    dice = random.Random(11)

    steps = [simulate_canary(dice, error_rate) for _ in range(canaries)]

    assert steps.count(Step.HALT) <= canaries / 20
    assert set(steps) <= {Step.GO_ON, Step.HALT}


def test_a_version_that_fails_or_is_slow_is_nearly_always_halted() -> None:
    dice = random.Random(12)

    assert sum(simulate_canary(dice, 0.01, increase=0.08) is Step.HALT for _ in range(40)) >= 38
    assert sum(simulate_canary(dice, 0.01, slower=2.5) is Step.HALT for _ in range(40)) >= 38
