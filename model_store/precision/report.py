"""What a survey found, as values: for a table, for JSON and for the description of the new version."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from model_store.precision.agreement import Agreement
from model_store.precision.decider import Finding
from model_store.precision_plan import PrecisionPlan

MIXED = "mixed"


@dataclass(frozen=True)
class Candidate:
    """One way to run the whole network, judged on all samples."""

    name: str
    """A precision, or `mixed` for units of unlike precision."""
    plan: PrecisionPlan
    agreement: Agreement | None = None
    """None when the network cannot run that way: see `failure`."""
    speedups: Mapping[int, float] | None = None
    """Batch size -> median over the rounds of (seconds of fp32 / seconds of this), above 1 is faster."""
    spreads: Mapping[int, tuple[float, float]] | None = None
    """Batch size -> lowest and highest of those ratios."""
    failure: str = ""


@dataclass(frozen=True)
class Report:
    """One survey."""

    records: int
    refused: int
    is_classifier: bool
    budget: float
    findings: Sequence[Finding]
    candidates: Sequence[Candidate]
    proposal: Candidate | None
    """The fastest candidate within the budget; None when only float32 keeps it."""
    notes: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def describe(candidate: Candidate, report: Report) -> str:
    """One sentence for people, and for the description of a version."""
    agreement = candidate.agreement
    if agreement is None:
        return f"{candidate.name}: cannot run: {candidate.failure}"
    measure = (
        f"top-1 agreement {1 - agreement.disagreement:.2%}"
        if report.is_classifier
        else f"relative error {agreement.relative_error:.2g}"
    )
    speeds = ", ".join(f"{ratio:.2f}x at batch {size}" for size, ratio in (candidate.speedups or {}).items())
    return f"{describe_plan(candidate.plan)}: {measure} on {agreement.records} records{speeds and f', {speeds}'}"


def describe_plan(plan: PrecisionPlan) -> str:
    """Base and number of deviations, in words."""
    counts: dict[str, int] = {}
    for precision in plan.layers.values():
        counts[precision] = counts.get(precision, 0) + 1
    parts = ", ".join(f"{count} in {precision}" for precision, count in sorted(counts.items()))
    return f"{plan.base} ({parts})" if parts else plan.base
