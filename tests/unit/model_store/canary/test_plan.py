from typing import Any

import pytest

from model_store.canary.plan import CanaryPlan, Thresholds, parse_stages, parse_window
from model_store.timeline import Timeline, TimelineEntry
from schemas.errors import ConfigurationError, PointerConflictError, UnsafeNameError


@pytest.mark.parametrize(
    ("text", "stages"), [("1,10,50,100", (1, 10, 50, 100)), ("100", (100,)), (" 5%, 100% ", (5, 100))]
)
def test_stages_rise_to_a_hundred(text: str, stages: tuple[int, ...]) -> None:
    assert parse_stages(text) == stages


@pytest.mark.parametrize(
    "text",
    ["", "1", "1,10", "10,1,100", "1,1,100", "0,100", "1,100,101", "a,100", "1.5,100", "-1,100", "1,,100", "²,100"],
)
def test_stages_that_cannot_be_meant_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--stages"):
        parse_stages(text)


def test_there_are_only_so_many_stages() -> None:
    with pytest.raises(ConfigurationError, match="1 to 20"):
        parse_stages(",".join(map(str, range(80, 101))))


def test_a_window_has_a_unit() -> None:
    assert [parse_window(text) for text in ("1500ms", "60s", "10m", "2h")] == [1.5, 60, 600, 7200]
    for text in ("60", "", "-1s", "1.5s", "1d"):
        with pytest.raises(ConfigurationError, match="--window"):
            parse_window(text)


@pytest.mark.parametrize("seconds", [0.5, 90_000.0, float("nan")])
def test_a_window_that_is_too_short_or_too_long_is_refused(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="1 s to 24 h"):
        CanaryPlan("new", window_seconds=seconds)


@pytest.mark.parametrize(
    "change",
    [
        {"min_results": 0}, {"max_error_rate_increase": -0.1}, {"max_error_rate_increase": 1.1},
        {"max_latency_ratio": 0.9}, {"max_quality_drop": -1.0}, {"max_latency_ratio": float("nan")},
    ],
)  # fmt: skip
def test_thresholds_that_cannot_be_meant_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="--m"):
        Thresholds(**change)


def test_a_version_name_is_checked() -> None:
    with pytest.raises(UnsafeNameError):
        CanaryPlan("../new")


def test_it_is_compared_with_the_version_that_is_active_alone() -> None:
    plan = CanaryPlan("new")

    assert plan.find_old(Timeline().with_activation("old", 0, 0), 10) == "old"
    for timeline, message in (
        (Timeline(), "no version is active"),
        (Timeline().with_activation("new", 0, 0), "active already"),
        (Timeline().with_activation({"a": 1, "b": 1}, 0, 0), "a, b share the traffic"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            plan.find_old(timeline, 10)
    armed = Timeline().with_activation("old", 0, 0).with_activation("other", 1, 0, effective_from_ms=100)
    with pytest.raises(PointerConflictError, match="still to come"):
        plan.find_old(armed, 10)


def test_each_stage_has_its_split_and_the_last_is_the_version_alone() -> None:
    plan = CanaryPlan("new")

    assert dict(plan.split_at(10, "old")) == {"old": 90, "new": 10}
    assert dict(plan.split_at(100, "old")) == {"new": 1}


def test_no_key_goes_back_from_stage_to_stage() -> None:
    plan = CanaryPlan("new")
    keys = [f"camera-{number}".encode() for number in range(10_000)]
    for old in ("a-before", "z-after"):
        won: set[bytes] = set()
        for share in plan.stages:
            entry = TimelineEntry(1, plan.split_at(share, old), 0)
            now = {key for key in keys if entry.pick(key) == "new"}
            assert won <= now
            assert abs(len(now) / len(keys) - share / 100) < 0.01
            won = now
