"""Are answers right? Each workload says how its answers are compared with the reference answers of its model. Pure.

A contestant's answer is the bytes it wrote; the worker wraps its outputs in a result body, everybody else writes the
output itself.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

NEEDED_SHARE = 0.99
"""Of all answers must agree. Less than all, so that a lower precision may turn a class that was a draw."""


@dataclass(frozen=True)
class Tolerance:
    """How far an answer may lie from the reference. `kind` names the comparison in :data:`COMPARISONS`."""

    kind: str
    largest: float

    def describe(self) -> str:
        """The tolerance in words, for the report."""
        texts = {
            "numbers": f"every number within {self.largest:g}",
            "top_label": f"the same first label, its probability within {self.largest:g}",
            "direction": f"cosine distance at most {self.largest:g}",
        }
        return f"{texts[self.kind]}, for at least {NEEDED_SHARE:.0%} of the answers"


@dataclass(frozen=True)
class Agreement:
    """What the comparison of one run found."""

    answers: int
    agreeing: int
    largest_difference: float

    @property
    def share(self) -> float:
        """Share of answers within the tolerance; 0 without answers."""
        return self.agreeing / self.answers if self.answers else 0.0

    @property
    def holds(self) -> bool:
        """True when enough answers agree."""
        return self.share >= NEEDED_SHARE


def read_output(value: bytes) -> Any:
    """The model's output in an answer: of a result body, or the value itself. None for what is no answer."""
    try:
        answer = msgspec.json.decode(value)
    except msgspec.DecodeError:
        return None
    if isinstance(answer, dict) and "status" in answer:
        return answer.get("output") if answer["status"] == "ok" else None
    return answer


def compare_answers(
    answers: Mapping[int, bytes], expected: Sequence[Any], tolerance: Tolerance, stride: int = 1
) -> Agreement:
    """Compare every `stride`-th answer, by request number, with `expected[number % len(expected)]`."""
    measure = COMPARISONS[tolerance.kind]
    numbers = sorted(answers)[::stride]
    differences = [measure(read_output(answers[number]), expected[number % len(expected)]) for number in numbers]
    finite = [difference for difference in differences if math.isfinite(difference)]
    agreeing = sum(1 for difference in finite if difference <= tolerance.largest)
    return Agreement(len(differences), agreeing, max(finite, default=0.0))


def _numbers(answer: Any, expected: Sequence[float]) -> float:
    if not isinstance(answer, list) or len(answer) != len(expected):
        return math.inf
    return float(max(abs(one - other) for one, other in zip(answer, expected, strict=True)))


def _top_label(answer: Any, expected: Any) -> float:
    first, wanted = _first(answer), _first(expected)
    if not isinstance(first, dict) or first.get("label") != wanted["label"]:
        return math.inf
    return float(abs(first["probability"] - wanted["probability"]))


def _first(answer: Any) -> Any:
    return answer[0] if isinstance(answer, list) and answer else answer


def _direction(answer: Any, expected: Sequence[float]) -> float:
    if not isinstance(answer, list) or len(answer) != len(expected):
        return math.inf
    product = sum(one * other for one, other in zip(answer, expected, strict=True))
    return float(1 - product / (math.hypot(*answer) * math.hypot(*expected) or math.inf))


COMPARISONS: Mapping[str, Callable[[Any, Any], float]] = {
    "numbers": _numbers,
    "top_label": _top_label,
    "direction": _direction,
}
