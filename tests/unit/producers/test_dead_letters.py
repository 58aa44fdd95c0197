"""Which dead letters go back, and why one cannot."""

import pytest

from producers.dead_letters import ReplayFilter, find_obstacle, original_headers
from schemas.records import Position
from tests.fakes.kafka_pair import dead_letter


@pytest.mark.parametrize(
    ("wanted", "matches"),
    [
        (ReplayFilter(), True),
        (ReplayFilter(ids=frozenset({"a"})), True),
        (ReplayFilter(ids=frozenset({"b"})), False),
        (ReplayFilter(codes=frozenset({"model_failure"})), True),
        (ReplayFilter(codes=frozenset({"too_large"})), False),
        (ReplayFilter(source_topic="requests"), True),
        (ReplayFilter(source_topic="other"), False),
        (ReplayFilter(since_ms=1000), True),
        (ReplayFilter(since_ms=1001), False),
        (ReplayFilter(ids=frozenset({"a"}), codes=frozenset({"too_large"})), False),
    ],
)
def test_everything_that_is_given_must_match(wanted, matches):
    assert wanted.matches(dead_letter("a")) is matches


@pytest.mark.parametrize(
    ("changes", "obstacle"),
    [
        ({"source": Position("elsewhere", 0, 0)}, "not one of topics.requests"),
        ({"payload_omitted": True}, "too large to travel"),
        ({"key": None, "payload": None}, "neither key nor value"),
    ],
)
def test_what_cannot_go_back_is_named(changes, obstacle):
    assert obstacle in (find_obstacle(dead_letter("a", **changes), ("requests",)) or "")


def test_an_ordinary_letter_can_go_back():
    assert find_obstacle(dead_letter("a"), ("requests",)) is None


def test_headers_go_back_as_they_came_but_for_null_values():
    letter = dead_letter("a", headers=(("ce_id", b"a"), ("empty", None), ("x-forwarded-y", b"1")))
    assert original_headers(letter) == [("ce_id", b"a"), ("empty", b""), ("x-forwarded-y", b"1")]
