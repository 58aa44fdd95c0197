"""Which settings are chosen, and what is said when none will do."""

import pytest

from schemas.errors import ConfigurationError
from schemas.settings import Settings
from stream_workers.profiling.choice import Goal, choose, list_candidates
from stream_workers.profiling.forecast import Forecast, Latencies, Load, find_knee, find_largest_rate, forecast, trace
from stream_workers.profiling.service_curve import ServiceCurve, SizeTimes, fit_curve
from stream_workers.profiling.setups import Candidate, Setup, list_setups, list_sizes

LOAD = Load(commit_interval_seconds=0.05, records=800)
ONE = Setup("v1", 1, 1, 2)


def line(fixed_ms: float, per_record_ms: float, sizes: tuple[int, ...] = (1, 4, 16)) -> ServiceCurve:
    return fit_curve([SizeTimes(size, ((fixed_ms + per_record_ms * size) / 1000,)) for size in sizes])


def ignore(text: str) -> None:
    pass


def test_the_setup_with_the_larger_capacity_within_the_target_wins() -> None:
    fast, slow = Setup("v1", 2, 1, 2), Setup("v1", 1, 2, 2)
    choice = choose({fast: line(10, 1), slow: line(10, 1.5)}, Goal(100, 0.3), LOAD, ignore)
    assert choice.candidate.setup == fast
    assert choice.carries(Goal(100, 0.3))
    assert choice.at_rate.visible.p99 <= 0.3


def test_a_tight_target_carries_less_than_a_loose_one() -> None:
    curves = {ONE: line(20, 5, (1, 8, 32))}
    tight = choose(curves, Goal(10, 0.16), LOAD, ignore)
    loose = choose(curves, Goal(10, 1.0), LOAD, ignore)
    assert tight.largest_rate < loose.largest_rate


def test_a_rate_that_nothing_carries_names_the_largest_one() -> None:
    goal = Goal(5000, 0.3)
    choice = choose({ONE: line(10, 1)}, goal, LOAD, ignore)
    assert not choice.carries(goal)
    assert 100 < choice.largest_rate < 16 / 0.026
    assert choice.at_rate.rate <= choice.largest_rate


def test_a_target_below_the_floor_says_what_the_floor_is_made_of() -> None:
    with pytest.raises(ConfigurationError, match=r"--p99-ms 40: out of reach .* 61 ms, 50 of them worker\.commit_int"):
        choose({ONE: line(10, 1)}, Goal(10, 0.04), LOAD, ignore)


def test_a_batch_of_one_has_no_wait_to_choose() -> None:
    waits = [one.max_wait_ms for one in list_candidates({ONE: line(1, 1, (1, 2))}) if one.max_batch_size == 1]
    assert waits == [0.0]


def test_the_largest_rate_keeps_the_target_and_a_tenth_more_does_not() -> None:
    candidate, curve = Candidate(ONE, 16, 0.0), line(20, 2)
    rate = find_largest_rate(candidate, curve, 0.25, LOAD)
    assert forecast(candidate, curve, rate, LOAD).visible.p99 <= 0.25
    assert forecast(candidate, curve, rate * 1.1, LOAD).visible.p99 > 0.25


def test_latency_grows_along_the_trace_and_the_commit_is_part_of_it() -> None:
    points = trace(Candidate(ONE, 16, 0.0), line(20, 2), LOAD, points=5)
    assert points[-1].visible.p99 > points[0].visible.p99
    assert all(one.visible.p99 > one.answered.p99 for one in points)
    assert points == trace(Candidate(ONE, 16, 0.0), line(20, 2), LOAD, points=5)


def test_the_knee_has_the_largest_power() -> None:
    points = [Forecast(rate, Latencies(0, 0), Latencies(p99, p99), 1) for rate, p99 in ((1, 1), (2, 1.1), (3, 9))]
    assert find_knee(points) is points[1]


def test_all_ways_to_divide_the_cores_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stream_workers.profiling.setups.cores", lambda: 4)
    settings = Settings(model={"instances": 4, "threads": 1}, worker={"members": 1})  # type: ignore[arg-type]  # pydantic converts
    assert [(one.instances, one.threads) for one in list_setups(settings, ["v1"])] == [(4, 1), (1, 4)]
    two_members = Settings(worker={"members": 2})  # type: ignore[arg-type]  # pydantic converts
    assert [(one.instances, one.threads) for one in list_setups(two_members, ["v1"])] == [(2, 1), (1, 2)]


def test_sizes_double_up_to_the_largest() -> None:
    assert list_sizes(1) == [1]
    assert list_sizes(16) == [1, 2, 4, 8, 16]
    assert list_sizes(20) == [1, 2, 4, 8, 16, 20]


def test_a_setup_is_described_and_applied() -> None:
    assert ONE.describe() == "v1: 1 instance x 1 thread, 2 slots"
    applied = Setup("v2", 3, 2, 1).apply(Settings(), 64)
    assert (applied.model.version, applied.model.instances, applied.model.threads) == ("v2", 3, 2)
    assert (applied.batching.slots, applied.batching.max_batch_size) == (1, 64)
