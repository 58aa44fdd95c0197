"""Names of precisions and the checks of a precision plan: data only, bounded, every refusal names path and value."""

import re
from collections.abc import Mapping
from typing import Any, Literal, cast, get_args

Precision = Literal["fp32", "bf16", "fp16", "int8", "mixed"]
LayerPrecision = Literal["fp32", "bf16", "fp16", "int8"]

PRECISIONS: tuple[Precision, ...] = get_args(Precision)
LAYER_PRECISIONS: tuple[LayerPrecision, ...] = get_args(LayerPrecision)
REDUCED_PRECISIONS = tuple(precision for precision in LAYER_PRECISIONS if precision != "fp32")
MAX_PLAN_ENTRIES = 4096
MAX_PATH_CHARS = 256
_LARGEST = 1e38
"""Above it no float32 holds the width of a range."""
_PATH = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")


def check_plan(value: Any) -> dict[str, LayerPrecision]:
    """Check module path -> precision. Raises ValueError naming the first path and value that cannot be."""
    for path, precision in _entries("precision_plan", value).items():
        if precision not in LAYER_PRECISIONS:
            raise ValueError(f"precision_plan.{path}: {_show(precision)} is not one of {', '.join(LAYER_PRECISIONS)}")
    return cast("dict[str, LayerPrecision]", dict(value))


def check_ranges(value: Any) -> dict[str, tuple[float, float]]:
    """Check module path -> (lowest, highest) input. Raises ValueError naming the first path and value."""
    checked = {}
    for path, pair in _entries("activation_ranges", value).items():
        if not _is_range(pair):
            raise ValueError(f"activation_ranges.{path}: {_show(pair)} is not a finite [lowest, highest]")
        checked[path] = (float(pair[0]), float(pair[1]))
    return checked


def check_base(precision: Precision, plan: Mapping[str, LayerPrecision]) -> None:
    """A plan and the precision above it must not contradict each other. Raises ValueError."""
    if precision == "mixed" and not plan:
        raise ValueError("precision mixed needs a precision_plan that names at least one layer")
    if precision == "fp32" and plan:
        path, value = next(iter(plan.items()))
        raise ValueError(f"precision_plan.{path}: {value} in a version of precision fp32: call it mixed")


def _entries(field: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{field}: {_show(value)} is not a mapping of module paths")  # noqa: TRY004 - pydantic's kind
    if len(value) > MAX_PLAN_ENTRIES:
        raise ValueError(f"{field}: {len(value)} entries; at most {MAX_PLAN_ENTRIES} are allowed")
    for path in value:
        if not isinstance(path, str) or len(path) > MAX_PATH_CHARS or not _PATH.fullmatch(path):
            raise ValueError(f"{field}: {_show(path)} is not a module path such as blocks.3.conv")
    return value


def _is_range(pair: Any) -> bool:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        return False
    numbers = all(isinstance(end, int | float) and not isinstance(end, bool) for end in pair)
    # NaN and infinities compare false, and a whole number too large for a float compares without becoming one.
    return numbers and all(abs(end) <= _LARGEST for end in pair) and pair[0] <= pair[1]


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
