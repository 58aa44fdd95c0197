"""The input range of an int8 layer, from the numbers that were seen on its input."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

_TAIL = 0.0005
"""Share of the kept numbers at each end that may be outliers."""
_OUTLYING = 4.0
"""How many times wider than all but the tails a range must be: two of the eight bits spent on outliers."""
MAX_KEPT = 1 << 16
"""Numbers of one layer that are kept to choose its range by."""

Numbers = npt.NDArray[np.float32]


@dataclass
class InputStatistics:
    """What was seen on the input of one layer."""

    low: float = float("inf")
    high: float = float("-inf")
    not_finite: int = 0
    """NaN and infinities seen; they have no part in the range."""
    kept: list[Numbers] = field(default_factory=list)

    def add(self, numbers: Numbers, share: int) -> None:
        """Take in the numbers of one batch and keep `share` of them, evenly spaced."""
        flat = numbers.ravel(order="K")
        # A finite sum says that all are, at a fraction of the cost of looking at each.
        with np.errstate(invalid="ignore"):  # both infinities add up to no number
            total = flat.sum(dtype=np.float64)
        finite = flat if np.isfinite(total) else flat[np.isfinite(flat)]
        self.not_finite += numbers.size - finite.size
        if finite.size:
            self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))
            self.kept.append(finite[:: max(1, finite.size // max(share, 1))][:share].copy())

    def choose_range(self) -> tuple[float, float] | None:
        """Return (lowest, highest) to quantise for, or None when no finite number was seen.

        That is the whole range, unless a few numbers reach far beyond all others: cutting tails that are merely long
        costs a network more answers than the finer step saves (docs/decisions/0017).
        """
        if not self.kept:
            return None
        numbers = np.sort(np.concatenate(self.kept).astype(np.float64))
        tail = int(len(numbers) * _TAIL) + 1
        if 2 * tail >= len(numbers):
            return self.low, self.high
        low, high = float(numbers[tail]), float(numbers[-1 - tail])
        is_outlying = _width(self.low, self.high) > _OUTLYING * _width(low, high) > 0
        return (low, high) if is_outlying else (self.low, self.high)


def _width(low: float, high: float) -> float:
    """What the levels are spread over: zero is always among them."""
    return max(high, 0.0) - min(low, 0.0)
