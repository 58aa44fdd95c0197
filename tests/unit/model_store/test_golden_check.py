"""A version gives the answer that it was published with, or is told apart by the first difference."""

import base64
import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from model_store.golden_check import check_golden, find_difference
from model_store.outcomes import ModelStageError, RecordError
from model_store.payloads import Payload
from schemas.errors import GoldenSampleError, ModelStoreError
from schemas.golden import GoldenSample
from schemas.records import Stage
from schemas.settings import LimitSettings

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


class PlayedModel:
    """A model that answers what it is told to, and keeps what it was asked."""

    def __init__(self, answer: bytes | RecordError | Exception) -> None:
        self._answer = answer
        self.asked: list[Payload] = []

    def run(self, payloads: Sequence[Payload]) -> list[bytes | RecordError]:
        self.asked += payloads
        if isinstance(self._answer, Exception):
            raise self._answer
        return [self._answer]


def check(answer: bytes | RecordError | Exception, expected: Any, **sample: Any) -> Payload:
    model = PlayedModel(answer)
    golden = GoldenSample(**{"payload": {"x": 1}, "answer": expected, **sample})
    check_golden(model, golden, LimitSettings())  # type: ignore[arg-type]
    return model.asked[0]


def test_the_sample_is_run_as_a_request_would_be() -> None:
    payload = check(b'{"score": 0.5}', {"score": 0.5})
    assert (payload.data, payload.content_type) == (b'{"x":1}', "application/json")
    payload = check(
        b"1", 1, payload=None, payload_base64=base64.b64encode(b"\xff\xd8").decode(), content_type="image/jpeg"
    )
    assert (payload.data, payload.content_type) == (b"\xff\xd8", "image/jpeg")


def test_a_wrong_answer_is_an_error_of_the_version_that_names_what_differs() -> None:
    with pytest.raises(
        GoldenSampleError, match=r"answer\[1\]\.score is 0.25, 0.5 was expected within 0.0001"
    ) as caught:
        check(b'[1, {"score": 0.25}]', [1, {"score": 0.5}])
    assert isinstance(caught.value, ModelStoreError)


def test_a_sample_that_is_refused_or_raises_is_an_error_too() -> None:
    with pytest.raises(GoldenSampleError, match="refused in preprocess: four numbers are needed"):
        check(RecordError(Stage.PREPROCESS, "invalid_input", "E", "four numbers are needed"), 1)
    with pytest.raises(GoldenSampleError, match="model: ValueError: boom"):
        check(ModelStageError(Stage.MODEL, ValueError("boom")), 1)


@pytest.mark.parametrize(
    ("expected", "found", "words"),
    [
        (1, 2, "answer is 2, 1 was expected within 0.01"),
        ({"a": 1}, {"b": 1}, "answer has no 'a'"),
        ({"a": 1}, {"a": 1, "b": 1}, "answer has 'b', which was not expected"),
        ([1, 2], [1], "answer has 1 items, 2 were expected"),
        ([1, "cat"], [1, "dog"], "answer[1] is 'dog', 'cat' was expected"),
        (True, 1, "answer is 1, True was expected"),
        (None, 0, "answer is 0, None was expected"),
        ([], {}, "answer is {}, [] was expected"),
        (10**400, 1, f"answer is 1, {10**400} was expected within 0.01"),
        ("x" * 200, "y", f"answer is 'y', {('x' * 200)!r:.79}… was expected"),
    ],
)
def test_the_first_difference_is_put_in_words(expected: Any, found: Any, words: str) -> None:
    assert find_difference(expected, found, 0.01) == words


def test_numbers_may_be_off_absolutely_or_in_proportion() -> None:
    assert find_difference(0.0, 0.009, 0.01) is None
    assert find_difference(1000.0, 1009.0, 0.01) is None
    assert find_difference(1000.0, 1011.0, 0.01) is not None
    assert find_difference(1, 1.0, 0.0) is None


@given(values)
def test_a_value_equals_itself_after_a_way_through_json(value: Any) -> None:
    assert find_difference(value, json.loads(json.dumps(value)), 0.0) is None


@given(values, values, st.floats(0, 1))
def test_any_two_values_can_be_compared_in_either_order(one: Any, other: Any, tolerance: float) -> None:
    assert (find_difference(one, other, tolerance) is None) == (find_difference(other, one, tolerance) is None)


@pytest.mark.parametrize(
    "sample",
    [
        {"answer": 1},
        {"payload": 1, "payload_base64": "MQ==", "answer": 1},
        {"payload_base64": "not base64", "answer": 1},
        {"payload": 1},
        {"payload": 1, "answer": 1, "tolerance": -1},
        {"payload": 1, "answer": 1, "tolerance": math.nan},
        {"payload": 1, "answer": 1, "content_type": "a b"},
        {"payload": 1, "answer": 1, "other": 1},
    ],
)
def test_what_is_no_sample_is_refused(sample: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        GoldenSample.model_validate(sample)
