"""Which layers are spared, and in which order. Pure: measurements in, plan out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from schemas.precision import LayerPrecision

MAX_UNITS = 32
_WORTHWHILE = 1.02
"""Speed-up below which a difference is noise."""


@dataclass(frozen=True)
class Finding:
    """One unit (a layer, or a block of layers) run in one precision, all else as in the base."""

    unit: str
    precision: LayerPrecision
    disagreement: float
    """As in Agreement: 0 is full agreement with float32."""
    divergence: float
    relative_error: float
    speedup: float | None = None
    """Time of the unit in the base over its time in this precision; None where it could not be measured."""

    @property
    def harm(self) -> tuple[float, float, float]:
        """Sorts findings by how much they cost: few samples disagree over one layer, so the finer measures follow."""
        return (self.disagreement, self.divergence, self.relative_error)


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


def choose_base(speedups: Mapping[LayerPrecision, float]) -> LayerPrecision:
    """The floating-point precision in which the whole network is fastest; fp32 unless another is worthwhile."""
    best: LayerPrecision = "fp32"
    for precision, speedup in speedups.items():
        if speedup > max(_WORTHWHILE, speedups.get(best, 1.0)):
            best = precision
    return best


def order_steps(findings: Iterable[Finding], base: LayerPrecision) -> tuple[Step, ...]:
    """All steps from the boldest plan to float32 everywhere, the most harmful precision first.

    A unit starts in int8 when that is not slower than the base for it, else in the base; a base other than fp32 can be
    spared in turn. A unit's own steps are always in that order.
    """
    found = {(finding.unit, finding.precision): finding for finding in findings}
    keyed: list[tuple[tuple[float, float, float], int, Step]] = []
    for unit in dict.fromkeys(unit for unit, _ in found):
        quantised, based = found.get((unit, "int8")), found.get((unit, base))
        harm_of_base = based.harm if based is not None and base != "fp32" else None
        if quantised is not None and _is_worthwhile(quantised):
            harm = quantised.harm if harm_of_base is None else max(quantised.harm, harm_of_base)
            keyed.append((harm, 0, Step(unit, "int8", base)))
        if harm_of_base is not None:
            keyed.append((harm_of_base, 1, Step(unit, base, "fp32")))
    # The second key keeps a unit's int8 step before its base step when both are equally harmful.
    keyed.sort(key=lambda entry: ([-part for part in entry[0]], entry[1]))
    return tuple(step for _, _, step in keyed)


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


def _is_worthwhile(finding: Finding) -> bool:
    return finding.speedup is None or finding.speedup > _WORTHWHILE
