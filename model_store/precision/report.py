"""What a survey found, as values: for a table, for JSON and for the description of the new version."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from model_store.precision.agreement import Agreement
from model_store.precision.decider import WORTHWHILE, Finding
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
    weight_bytes: int = 0
    """Memory of parameters and buffers when loaded so."""
    failure: str = ""

    def keeps(self, budget: float) -> bool:
        """Whether it is something else than fp32 and was measured within the budget."""
        return not self.plan.changes_nothing and self.agreement is not None and self.agreement.disagreement <= budget

    @property
    def is_faster(self) -> bool:
        """Whether the race told it from fp32."""
        return self.speed > WORTHWHILE

    @property
    def speed(self) -> float:
        """The median ratio at the largest batch size; 0 before a race."""
        return self.speedups[max(self.speedups)] if self.speedups else 0.0


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
    """The fastest candidate within the budget; None when nothing but fp32 keeps it, or nothing that does is faster."""
    notes: Sequence[str]

    @property
    def slower(self) -> Sequence[Candidate]:
        """Candidates that keep the budget and are no faster than fp32."""
        return [one for one in self.candidates if one.keeps(self.budget) and not one.is_faster]

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
