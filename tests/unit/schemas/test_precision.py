"""A precision plan in a manifest is data from outside: what cannot be is refused by path and value."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.manifest import ModelManifest
from schemas.precision import LAYER_PRECISIONS, MAX_PATH_CHARS, MAX_PLAN_ENTRIES


def manifest(**precision: Any) -> ModelManifest:
    return ModelManifest(name="m", version="v1", model_class="c", files=(), **precision)


@pytest.mark.parametrize(
    ("precision", "said"),
    [
        ({"precision": "int4"}, "precision"),
        ({"precision": "mixed"}, "needs a precision_plan"),
        ({"precision": "fp32", "precision_plan": {"a": "bf16"}}, r"precision_plan\.a: bf16 .* call it mixed"),
        ({"precision": "mixed", "precision_plan": {"a": "int4"}}, r"precision_plan\.a: 'int4' is not one of"),
        ({"precision": "mixed", "precision_plan": {"a": ["bf16"]}}, r"precision_plan\.a"),
        ({"precision": "mixed", "precision_plan": {"": "bf16"}}, "is not a module path"),
        ({"precision": "mixed", "precision_plan": {"../x": "bf16"}}, "is not a module path"),
        ({"precision": "mixed", "precision_plan": {"a..b": "bf16"}}, "is not a module path"),
        ({"precision": "mixed", "precision_plan": {"a\n": "bf16"}}, "is not a module path"),
        ({"precision": "mixed", "precision_plan": {"a" * (MAX_PATH_CHARS + 1): "bf16"}}, "is not a module path"),
        ({"precision": "mixed", "precision_plan": {f"l{n}": "bf16" for n in range(MAX_PLAN_ENTRIES + 1)}}, "at most"),
        ({"precision": "mixed", "precision_plan": ["a"]}, "is not a mapping"),
        ({"activation_ranges": {"a": [1, 0]}}, r"activation_ranges\.a: \[1, 0\] is not a finite"),
        ({"activation_ranges": {"a": [0, float("nan")]}}, r"activation_ranges\.a"),
        ({"activation_ranges": {"a": [0, float("inf")]}}, r"activation_ranges\.a"),
        ({"activation_ranges": {"a": [0, 10**400]}}, r"activation_ranges\.a"),
        ({"activation_ranges": {"a": [False, True]}}, r"activation_ranges\.a"),
        ({"activation_ranges": {"a": [0, 1, 2]}}, r"activation_ranges\.a"),
        ({"activation_ranges": {"a": "01"}}, r"activation_ranges\.a"),
    ],
)
def test_what_cannot_be_a_plan_is_refused_by_name(precision: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        manifest(**precision)


paths = st.from_regex(r"[a-z0-9_]{1,5}(\.[a-z0-9_]{1,5}){0,3}", fullmatch=True)


@given(st.dictionaries(paths, st.sampled_from(LAYER_PRECISIONS), min_size=1, max_size=20))
def test_a_sound_plan_survives_its_file(plan: dict[str, Any]) -> None:
    made = manifest(precision="mixed", precision_plan=plan, activation_ranges=dict.fromkeys(plan, (-1, 2)))

    assert ModelManifest.model_validate_json(made.model_dump_json()) == made


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(json_values, json_values)
def test_any_other_value_is_refused_and_nothing_else_happens(plan: Any, ranges: Any) -> None:
    try:
        made = manifest(precision="mixed", precision_plan=plan, activation_ranges=ranges)
    except ValidationError:
        return
    assert set(made.precision_plan.values()) <= set(LAYER_PRECISIONS)
