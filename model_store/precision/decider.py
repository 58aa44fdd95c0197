"""Which layers are spared, and in which order. Pure: measurements in, plan out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from schemas.precision import LayerPrecision

MAX_UNITS = 32
WORTHWHILE = 1.02
"""Speed-up below which a difference is noise."""

Harm = tuple[float, float, float]


@dataclass(frozen=True)
class Finding:
    """One unit (a layer, or a block of layers) run in one precision, all else in float32."""

    unit: str
    precision: LayerPrecision
    disagreement: float
    """As in Agreement: 0 is full agreement with float32."""
    divergence: float
    relative_error: float
    speedup: float | None = None
    """Time of the unit in float32 over its time in this precision; None where it could not be measured."""

    @property
    def harm(self) -> Harm:
        """Sorts findings by how much they cost. Divergence first: it is steady where a changed answer is chance.

        It is 0 for what is no classifier; disagreement then is the relative error.
        """
        return (self.divergence, self.disagreement, self.relative_error)


@dataclass(frozen=True)
class Step:
    """Sparing one unit by one rung: from a precision to the next more exact one."""

    unit: str
    before: LayerPrecision
    after: LayerPrecision


def group_layers(paths: Sequence[str], limit: int = MAX_UNITS) -> list[str]:
    """Group layers into at most `limit` units where the paths allow it: the longest common depth that is few enough.

    Layers of one block are spared together: between them a cast would cost more than it saves.
    """
    deepest = max((path.count(".") + 1 for path in paths), default=0)
    for depth in range(deepest, 0, -1):
        units = list(dict.fromkeys(".".join(path.split(".")[:depth]) for path in paths))
        if len(units) <= limit:
            break
    else:
        units = []
    return units


def order_steps(findings: Iterable[Finding]) -> tuple[Step, ...]:
    """All steps from the fastest plan to float32 everywhere, the most harmful precision of any unit first.

    A precision has a place only where it is faster than every less harmful one, float32 included. So a unit starts in
    its fastest precision, and each step that spares it is towards less harm.
    """
    units: dict[str, list[Finding]] = {}
    for finding in findings:
        units.setdefault(finding.unit, []).append(finding)
    steps: list[tuple[Harm, Step]] = []
    for unit, own in units.items():
        before: LayerPrecision = "fp32"
        fastest = 1.0
        for finding in sorted(own, key=lambda one: one.harm):
            speedup = fastest * 2 * WORTHWHILE if finding.speedup is None else finding.speedup
            if speedup > fastest * WORTHWHILE:
                steps.append((finding.harm, Step(unit, finding.precision, before)))
                before, fastest = finding.precision, speedup
    # Of a unit's equally harmful precisions the one furthest from float32 is left first: sorted upwards, then turned.
    return tuple(step for _, step in sorted(steps, key=lambda entry: entry[0]))[::-1]


def plan_after(steps: Sequence[Step], count: int) -> dict[str, LayerPrecision]:
    """Unit -> precision once the first `count` steps were taken. Units without a step are not named."""
    plan: dict[str, LayerPrecision] = {}
    for step in steps:
        plan.setdefault(step.unit, step.before)
    for step in steps[:count]:
        plan[step.unit] = step.after
    return plan


def find_fewest(total: int, is_within_budget: Callable[[int], bool]) -> int | None:
    """The fewest steps, 0 to `total`, that keep the budget, by bisection; None when not even `total` does.

    Each call may run the network on all samples, so at most 2 + log2(total) are made. The number returned was itself
    judged within the budget, also where more steps do not always agree better.
    """
    if is_within_budget(0):
        return 0
    if total == 0 or not is_within_budget(total):
        return None
    low, high = 0, total
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_within_budget(middle) else (middle, high)
    return high
