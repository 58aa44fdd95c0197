"""The input range of an int8 layer, from the numbers that were seen on its input."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

_KEPT_SHARES = (1.0, 0.9999, 0.999)
_LEVELS = 255
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
        finite = flat if np.isfinite(flat.sum(dtype=np.float64)) else flat[np.isfinite(flat)]
        self.not_finite += numbers.size - finite.size
        if finite.size:
            self.low, self.high = min(self.low, float(finite.min())), max(self.high, float(finite.max()))
            self.kept.append(finite[:: max(1, finite.size // max(share, 1))][:share].copy())

    def choose_range(self) -> tuple[float, float] | None:
        """Return (lowest, highest) to quantise for, or None when no finite number was seen.

        Chooses among the whole range and two that cut off the outermost numbers, by the mean absolute error of
        quantising the kept ones: by a squared error, one outlier in a million would decide the step for all the rest.
        """
        if not self.kept:
            return None
        numbers = np.sort(np.concatenate(self.kept).astype(np.float64))
        ranges = [_cut(numbers, share, self.low, self.high) for share in _KEPT_SHARES]
        return min(ranges, key=lambda ends: _mean_error(numbers, *ends))


def _cut(numbers: npt.NDArray[np.float64], share: float, low: float, high: float) -> tuple[float, float]:
    if share == 1.0:
        return low, high
    tail = int(len(numbers) * (1 - share) / 2) + 1
    if 2 * tail >= len(numbers):
        return low, high
    return float(numbers[tail]), float(numbers[-1 - tail])


def _mean_error(numbers: npt.NDArray[np.float64], low: float, high: float) -> float:
    low, high = min(low, 0.0), max(high, 0.0)
    step = (high - low) / _LEVELS
    if step <= 0:
        return 0.0 if not numbers.any() else float(np.abs(numbers).mean())
    back = np.round(np.clip(numbers, low, high) / step) * step
    return float(np.abs(back - numbers).mean())
