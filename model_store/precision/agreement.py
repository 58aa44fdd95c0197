"""How far the answers of a changed network lie from those of the float32 one."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Outputs = npt.NDArray[np.float32]
"""Raw outputs of one batch, [records, numbers]."""


@dataclass(frozen=True)
class Agreement:
    """A comparison over all records, each counted alike."""

    records: int
    disagreement: float
    """Share of records whose likeliest class is another, 0 to 1; for other outputs, the relative error."""
    divergence: float
    """Mean Kullback-Leibler divergence of the classes' probabilities, in nats; 0 for other outputs."""
    relative_error: float
    """Euclidean length of the difference over that of the float32 outputs, over all finite records."""
    broken: int
    """Records that float32 answered with finite numbers and the changed network did not: each one disagrees."""


def compare(reference: Iterable[Outputs], found: Iterable[Outputs], *, is_classifier: bool) -> Agreement:
    """Compare batch by batch; both must hold the same records in the same order.

    Records that float32 itself answers with NaN or an infinity are left out: there is nothing to agree with.
    """
    records = broken = differing = 0
    divergence = error_square = length_square = 0.0
    for expected, answered in zip(reference, found, strict=True):
        meaningful = np.isfinite(expected).all(axis=1)
        sound = meaningful & np.isfinite(answered).all(axis=1)
        records += int(meaningful.sum())
        broken += int(meaningful.sum() - sound.sum())
        left, right = expected[sound].astype(np.float64), answered[sound].astype(np.float64)
        error_square += float(((left - right) ** 2).sum())
        length_square += float((left**2).sum())
        if is_classifier and len(left):
            differing += int((left.argmax(axis=1) != right.argmax(axis=1)).sum())
            divergence += float(_divergence(left, right).sum())
    relative = _relative(error_square, length_square)
    loss = (differing + broken) / max(records, 1) if is_classifier else (float("inf") if broken else relative)
    return Agreement(records, loss, divergence / max(records - broken, 1), relative, broken)


def _relative(error_square: float, length_square: float) -> float:
    if not error_square:
        return 0.0
    return float(np.sqrt(error_square / length_square)) if length_square else float("inf")


def _divergence(left: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    log_left, log_right = _log_softmax(left), _log_softmax(right)
    divergence: npt.NDArray[np.float64] = (np.exp(log_left) * (log_left - log_right)).sum(axis=1)
    return np.maximum(divergence, 0.0)  # rounding may leave a tiny negative number


def _log_softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    shifted = logits - logits.max(axis=1, keepdims=True)
    normalised: npt.NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return normalised
