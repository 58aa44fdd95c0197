from typing import Any

import msgspec
import pytest

from model_store.canary.observation import find_number, is_as_split, observe, parse_field
from model_store.canary.tally import Kind, Observation
from model_store.timeline import TimelineEntry
from schemas.errors import ConfigurationError
from schemas.records import ErrorDetail, Position, Stage, Status, Timings
from tests.fakes.kafka_pair import dead_letter, result

ENTRY = TimelineEntry(4, {"old": 90, "new": 10}, 0)


@pytest.mark.parametrize(
    ("text", "answer", "number"),
    [
        ("confidence", {"confidence": 0.5}, 0.5), ("confidence", {"confidence": 3}, 3.0),
        ("a b", {"a b": 1}, 1.0), ("/0/score", [{"score": 0.25}], 0.25), ("/a~1b/c~0d", {"a/b": {"c~d": 1}}, 1.0),
        ("/", {"": 2}, 2.0), ("/x/01", {"x": [1, 2]}, None), ("/x/-1", {"x": [1]}, None), ("/x/9", {"x": [1]}, None),
        ("confidence", {"confidence": "0.5"}, None), ("confidence", {"confidence": True}, None),
        ("confidence", {}, None), ("confidence", [1], None), ("confidence", None, None),
        ("confidence", {"confidence": 10**400}, None), ("confidence", {"confidence": 1e300}, None),
        ("confidence", {"confidence": {"deep": 1}}, None), ("/a/b", {"a": 1}, None),
    ],
)  # fmt: skip
def test_a_number_is_found_by_name_or_pointer(text: str, answer: Any, number: float | None) -> None:
    assert find_number(answer, parse_field(text)) == number


@pytest.mark.parametrize("text", ["", "x" * 201, "/a~2", "/a~", "a\nb"])
def test_a_field_that_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--quality"):
        parse_field(text)


def test_an_answer_tells_its_latency_and_its_quality() -> None:
    answer = result("r", output=msgspec.Raw(b'{"q": 0.5}'), timings=Timings(3.0, 4.0, 8))

    assert observe(answer, None) == Observation(Kind.OK, 7.0, 8)
    assert observe(answer, ("q",)) == Observation(Kind.OK, 7.0, 8, 0.5)
    assert observe(answer, ("z",)) == Observation(Kind.UNMEASURED, 7.0, 8)


def test_an_answer_from_the_cache_has_no_latency() -> None:
    assert observe(result("r", timings=Timings(3.0, 0.0, 0)), None) == Observation(Kind.OK)


def test_what_expired_counts_and_what_was_replaced_does_not() -> None:
    assert observe(result("r", status=Status.EXPIRED, output=None), ("q",)) == Observation(Kind.EXPIRED)
    assert observe(result("r", status=Status.SUPERSEDED, output=None), ("q",)) is None


@pytest.mark.parametrize("stage", list(Stage))
def test_a_dead_letter_counts_unless_no_model_has_seen_it(stage: Stage) -> None:
    letter = dead_letter("r", error=ErrorDetail(stage=stage, code="c", error_class="E", message="m"))

    seen = observe(letter, None)

    assert seen == (None if stage in {Stage.DECODE, Stage.VALIDATE} else Observation(Kind.DEAD_LETTERED))


def test_an_outcome_is_as_split_when_its_version_is_the_one_of_its_key() -> None:
    for key in (b"a", b"b", b"camera-7"):
        right = ENTRY.pick(key)
        wrong = "new" if right == "old" else "old"
        assert is_as_split(result("r", key=key, version=right), ENTRY)
        assert not is_as_split(dead_letter("r", key=key, version=wrong), ENTRY)


def test_without_a_key_the_source_position_decides() -> None:
    source = Position("t", 3, 99)

    assert is_as_split(result("r", key=None, source=source, version=ENTRY.pick(b"t:3:99")), ENTRY)
