"""Decides about a stage of a canary from what both versions have answered: go on, wait, halt or give up.

Pure: tallies and times in, a judgment out. A difference halts at once when it is surely larger than allowed. When the
window is over it already halts when the canary is surely worse at all and the best estimate is more than allowed.
"""

import enum
from dataclasses import dataclass

from model_store.canary.intervals import bound_mean_drop, bound_rate_increase
from model_store.canary.plan import CanaryPlan
from model_store.canary.tally import Tally

MIN_MEASURED = 30
"""Answers of each version with a quality, for a mean that can be compared."""
WINDOWS = 2
"""How many a stage may last when there is too little traffic."""


class Step(enum.Enum):
    """What a canary does next."""

    WAIT = "wait"
    """Look again."""
    GO_ON = "go on"
    """Take the next stage."""
    HALT = "halt"
    """The canary is worse than allowed: go back."""
    GIVE_UP = "give up"
    """Too little traffic to decide anything: go back."""


@dataclass(frozen=True)
class Judgment:
    """A step, and what it rests on in a line for a person."""

    step: Step
    reason: str


@dataclass(frozen=True)
class Comparison:
    """One criterion."""

    text: str
    estimate: float
    least: float
    """What it surely is at least."""
    allowed: float
    neutral: float
    """Its value for equal versions."""

    def is_worse(self, *, is_over: bool) -> bool:
        """Whether it halts the canary; `is_over` when the window is."""
        return self.least > self.allowed or (is_over and self.least > self.neutral and self.estimate > self.allowed)


def judge_stage(new: Tally, old: Tally, plan: CanaryPlan, elapsed_seconds: float) -> Judgment:
    """Decide about a stage that has lasted so long."""
    is_over = elapsed_seconds >= plan.window_seconds
    scarcity = _find_scarcity(new, old, plan)
    if scarcity:
        if elapsed_seconds >= WINDOWS * plan.window_seconds:
            return Judgment(Step.GIVE_UP, f"too little traffic in {WINDOWS} windows: {scarcity}")
        return Judgment(Step.WAIT, f"too little traffic, one more window: {scarcity}" if is_over else scarcity)
    comparisons = compare_versions(new, old, plan)
    for comparison in comparisons:
        if comparison.is_worse(is_over=is_over):
            return Judgment(Step.HALT, comparison.text)
    if is_over:
        return Judgment(Step.GO_ON, f"no worse than {plan.window_seconds:g} s can show")
    return Judgment(Step.WAIT, "as good as before so far")


def judge_silence(redis_seconds: float, kafka_seconds: float, plan: CanaryPlan) -> str:
    """Return who has been out of reach for longer than a window, and nothing when both answer."""
    for name, seconds in (("Redis", redis_seconds), ("Kafka", kafka_seconds)):
        if seconds > plan.window_seconds:
            return f"{name} has not answered for {seconds:.0f} s"
    return ""


def compare_versions(new: Tally, old: Tally, plan: CanaryPlan) -> list[Comparison]:
    """Compare both versions by every criterion that there are enough samples for; each has had a result."""
    made = [
        _compare_errors(new, old, plan.thresholds.max_error_rate_increase),
        _compare_latency(new, old, plan.thresholds.max_latency_ratio),
    ]
    if plan.quality_path is not None and min(new.quality.count, old.quality.count) >= MIN_MEASURED:
        made.append(_compare_quality(new, old, plan.thresholds.max_quality_drop))
    return [comparison for comparison in made if comparison is not None]


def _find_scarcity(new: Tally, old: Tally, plan: CanaryPlan) -> str:
    least = plan.thresholds.min_results
    if new.results < least or old.results < least:
        return f"{new.results} of {least} results needed, {old.results} of the version before"
    if plan.quality_path is None or min(new.quality.count, old.quality.count) >= MIN_MEASURED:
        return ""
    # A canary without the field where the version before has it is no lack of traffic but an error of its own.
    comparison = _compare_errors(new, old, plan.thresholds.max_error_rate_increase)
    if comparison.is_worse(is_over=False):
        return ""
    return (
        f"{new.quality.count} of {MIN_MEASURED} answers with a quality needed,"
        f" {old.quality.count} of the version before"
    )


def _compare_errors(new: Tally, old: Tally, allowed: float) -> Comparison:
    rate, base = new.errors / new.results, old.errors / old.results
    least = bound_rate_increase(new.errors, new.results, old.errors, old.results)
    kinds = ", ".join(
        f"{count} {kind.value}" for kind, count in new.kinds.most_common() if kind.value != "ok" and count
    )
    return Comparison(
        f"error rate {100 * rate:.3g}% of {new.results} ({kinds}) against {100 * base:.3g}% of {old.results}:"
        f" surely {100 * least:.3g} points more, {100 * allowed:g} allowed",
        rate - base,
        least,
        allowed,
        0.0,
    )


def _compare_latency(new: Tally, old: Tally, allowed: float) -> Comparison | None:
    percentile, base = new.latencies.find_percentile(), old.latencies.find_percentile()
    if percentile is None or base is None or percentile.bounds is None or base.bounds is None:
        return None
    ratio = percentile.estimate / base.estimate
    least = percentile.bounds.low / base.bounds.high
    return Comparison(
        f"latency p95 {percentile.estimate:.3g} ms against {base.estimate:.3g} ms: {ratio:.3g} times,"
        f" surely {least:.3g}, {allowed:g} allowed",
        ratio,
        least,
        allowed,
        1.0,
    )


def _compare_quality(new: Tally, old: Tally, allowed: float) -> Comparison:
    drop = old.quality.mean - new.quality.mean
    least = bound_mean_drop(drop, new.quality.variance_of_mean + old.quality.variance_of_mean)
    return Comparison(
        f"quality {new.quality.mean:.4g} against {old.quality.mean:.4g}: {drop:.3g} lower, surely {least:.3g},"
        f" {allowed:g} allowed",
        drop,
        least,
        allowed,
        0.0,
    )
