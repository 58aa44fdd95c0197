"""How two answers differ, for whatever they are."""

import math
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from schemas.shadow_records import MAX_CHANGES, MAX_TEXT_CHARS, LabelChange, ShadowChange
from stream_workers.shadowing.difference import (
    MAX_COMPARED_BYTES,
    MAX_PLACES,
    compare_answers,
    compare_values,
    find_label,
)

text = st.text(st.characters(codec="utf-8"), max_size=5)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | text
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=20
)
numbers = st.floats(-1e6, 1e6)


@given(values)
def test_a_value_equals_itself_with_nan_and_all(value: Any) -> None:
    found = compare_values(value, value)
    assert (found.equal, found.changed, found.max_difference, found.changes, found.label) == (True, 0, 0.0, [], None)


@given(values, values)
def test_what_is_found_does_not_depend_on_the_side_and_always_fits_a_record(left: Any, right: Any) -> None:
    there, back = compare_values(left, right), compare_values(right, left)
    assert (there.equal, there.changed, there.only_numbers) == (back.equal, back.changed, back.only_numbers)
    assert there.max_difference == back.max_difference
    assert len(there.changes) == min(there.changed, MAX_CHANGES)
    assert not (there.equal and there.only_numbers)
    if there.max_difference is not None:
        assert math.isfinite(there.max_difference)
        assert there.max_difference >= 0
    assert len(msgspec.json.encode(there.changes)) < MAX_CHANGES * 20 * MAX_TEXT_CHARS


@given(st.binary(max_size=50), st.binary(max_size=50))
def test_any_bytes_can_be_compared(left: bytes, right: bytes) -> None:
    found = compare_answers(left, right)
    if left == right:
        assert found.equal
    msgspec.json.encode(found.changes)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=30))
def test_the_largest_distance_of_two_numbers_in_one_place_is_told(pairs: list[tuple[float, float]]) -> None:
    left, right = [one for one, _ in pairs], [other for _, other in pairs]
    found = compare_values({"scores": left}, {"scores": right})
    assert found.max_difference == max(abs(one - other) for one, other in pairs)
    assert found.changed == sum(one != other for one, other in pairs)
    assert found.equal or found.only_numbers


def test_whole_numbers_and_fractions_are_numbers_and_truth_is_none() -> None:
    assert compare_answers(b'{"a": 1}', b'{"a":1.0}').equal
    found = compare_values([True], [1])
    assert (found.changed, found.only_numbers, found.max_difference) == (1, False, None)


def test_a_distance_that_is_no_finite_number_is_a_change_and_not_a_number() -> None:
    for left, right in ((math.nan, 1.0), (math.inf, 1.0), (math.inf, -math.inf), (10**400, 1.5)):
        found = compare_values([left, 2], [right, 5])
        assert (found.changed, found.only_numbers, found.max_difference) == (2, False, 3.0)


def test_places_that_one_answer_lacks_are_changes_with_one_value() -> None:
    found = compare_values({"a": [1, 2], "b/~": None}, {"a": [1], "c": 0})
    assert found.changes == [
        ShadowChange("/a/1", active=2),
        ShadowChange("/b~1~0", active=None),
        ShadowChange("/c", shadow=0),
    ]
    assert msgspec.json.encode(found.changes[1]) == b'{"pointer":"/b~1~0","active":null}'


def test_values_of_another_kind_are_one_change_and_described() -> None:
    found = compare_values([1, 2, 3], {"a": {}})
    assert found.changes == [ShadowChange("", "list of 3", "object of 1")]
    assert not compare_values([], {}).equal


def test_another_first_label_is_told() -> None:
    found = compare_values([{"label": "cat", "p": 0.6}, {"label": "dog"}], [{"label": "dog", "p": 0.6}])
    assert found.label == LabelChange("cat", "dog")
    assert compare_values([{"label": "cat", "p": 0.6}], [{"label": "cat", "p": 0.7}]).label is None


def test_the_label_is_looked_for_in_the_first_nested_part_and_not_for_ever() -> None:
    assert find_label({"took": 3, "classes": [{"label": "cat"}, {"label": "dog"}]}) == "cat"
    assert find_label([[[[[{"label": "cat"}]]]]]) is None
    assert find_label({"label": 7}) is None
    assert find_label([]) is None


def test_answers_that_are_no_json_differ_as_wholes() -> None:
    found = compare_answers(b"\xff\x00", b"[1]")
    assert found.changes == [ShadowChange("", "\N{REPLACEMENT CHARACTER}\0", "[1]")]
    assert not compare_answers(b"[" * 100_000, b"[1]").equal


def test_what_is_very_long_or_deep_is_bounded() -> None:
    long = b'"' + b"x" * MAX_COMPARED_BYTES + b'"'
    assert compare_answers(long, b"1").changes[0].shadow == "1 bytes"
    many = compare_values([0] * (MAX_PLACES + 5), [1] * (MAX_PLACES + 5))
    assert (many.changed, many.only_numbers, len(many.changes)) == (MAX_PLACES + 1, False, MAX_CHANGES)
    left: Any = 1
    right: Any = 2
    for _ in range(5000):
        left, right = [left], [right]
    assert compare_values(left, right).changed == 1
