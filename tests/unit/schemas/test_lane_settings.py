"""Priorities of topics and prices of records, as settings."""

from typing import Any

import pytest
from pydantic import ValidationError

from schemas.settings import BatchingSettings, Settings, TopicSettings, urgent_slots


def test_topics_of_one_priority_are_one_lane() -> None:
    topics = TopicSettings(requests=("a", "b", "c"), priorities={"b": 1, "c": 1})
    assert topics.lanes == (0, 1)
    assert topics.least_urgent == "c"
    assert TopicSettings(requests=("a", "b")).lanes == (0,)
    assert TopicSettings(requests=("a", "b")).least_urgent == "b"


def test_only_a_worker_with_several_lanes_keeps_slots_in_reserve() -> None:
    several = Settings(topics=TopicSettings(requests=("a", "b"), priorities={"b": 1}))
    assert urgent_slots(Settings()) == 0
    assert urgent_slots(several) > 0


@pytest.mark.parametrize(
    ("priorities", "words"),
    [
        ({"z": 1}, "priorities names z, which is not one of requests: a, b"),
        ({"a": 1, "b": 2}, "the highest priority in use is 0"),
        ({"a": -1}, "greater than or equal to 0"),
        ({"a": 10}, "less than or equal to 9"),
    ],
)
def test_priorities_that_mean_nothing_are_refused(priorities: dict[str, int], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        TopicSettings(requests=("a", "b"), priorities=priorities)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_batch_cost": 5.0}, "need cost, which says what a record costs"),
        ({"length_buckets": (1.0,)}, "need cost"),
        ({"cost": "bytes", "length_buckets": (2.0, 1.0)}, "must rise"),
        ({"cost": "bytes", "length_buckets": (2.0, 2.0)}, "must rise"),
        ({"cost": "weight"}, "should match pattern"),
        ({"lowest_share": 0.0}, "greater than 0"),
    ],
)
def test_costs_that_mean_nothing_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        BatchingSettings(**given)
