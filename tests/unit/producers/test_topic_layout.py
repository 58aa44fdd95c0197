"""Planned topics, and how existing ones differ."""

import pytest

from producers.lag import measure_lag
from producers.topic_layout import TopicDescription, TopicPlan, find_differences, plan_topics
from schemas.settings import LimitSettings, TopicSettings

TOPICS = TopicSettings(requests=("fast", "slow"), results="results", dead_letters="dead", control="control")
LIMITS = LimitSettings(payload_bytes=1000, key_bytes=10, header_bytes=20, result_bytes=2000)


def plan(**changes):
    return plan_topics(TOPICS, LIMITS, **({"partitions": 4, "replication": 2} | changes))


def found(**changes) -> TopicDescription:
    values = {
        "name": "fast",
        "partitions": 4,
        "replication": 2,
        "timestamp_type": "LogAppendTime",
        "max_message_bytes": 10**6,
    }
    return TopicDescription(**(values | changes))


def test_every_topic_is_planned_with_room_for_its_largest_record():
    sizes = {topic.name: int(topic.configs["max.message.bytes"]) for topic in plan()[:-1]}
    assert sizes["fast"] == sizes["slow"] > 1030
    assert sizes["results"] > 2030
    assert sizes["dead"] > sizes["results"]


def test_only_request_topics_are_stamped_by_the_broker():
    stamped = {topic.name for topic in plan() if topic.configs.get("message.timestamp.type") == "LogAppendTime"}
    assert stamped == {"fast", "slow"}


def test_retention_is_left_to_the_broker_unless_given():
    assert all("retention.ms" not in topic.configs for topic in plan())
    assert {topic.configs["retention.ms"] for topic in plan(retention_ms=5)[:-1]} == {"5"}


def test_the_control_topic_has_one_order_and_is_kept_for_ever():
    control = plan(retention_ms=5)[-1]
    assert (control.name, control.partitions, control.configs) == ("control", 1, {"cleanup.policy": "compact"})
    (named,) = find_differences(control, found(name="control", partitions=1, cleanup_policy="delete"))
    assert named == "cleanup.policy delete would drop records that are still needed"
    assert find_differences(control, found(name="control", partitions=1, cleanup_policy="compact")) == ()


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"partitions": 3}, "3 partitions instead of 4"),
        ({"replication": 1}, "replication 1 instead of 2"),
        ({"timestamp_type": "CreateTime"}, "message.timestamp.type CreateTime instead of LogAppendTime"),
        ({"max_message_bytes": 5}, "max.message.bytes 5 instead of"),
        ({"cleanup_policy": "compact,delete"}, "cleanup.policy compact"),
    ],
)
def test_a_shortcoming_is_named(changes, difference):
    (named,) = find_differences(plan()[0], found(**changes))
    assert difference in named


def test_a_plan_without_a_size_finds_no_size_too_small():
    assert find_differences(TopicPlan("fast", 4, 2), found()) == ()


@pytest.mark.parametrize("changes", [{}, {"partitions": 8}, {"max_message_bytes": None, "timestamp_type": ""}])
def test_more_than_planned_or_unknown_is_no_shortcoming(changes):
    assert find_differences(plan()[0], found(**changes)) == ()


@pytest.mark.parametrize(
    ("log_start", "end", "committed", "start_from", "lag"),
    [
        (0, 10, 4, "earliest", 6),
        (0, 10, 10, "earliest", 0),
        (0, 10, 12, "earliest", 0),  # the group was faster than the two reads
        (8, 10, 4, "earliest", 2),  # retention deleted what was not read
        (1_000_000, 1_000_010, None, "earliest", 10),
        (1_000_000, 1_000_010, None, "latest", 0),
        (5, 5, None, "earliest", 0),
    ],
)
def test_lag_counts_what_can_be_read_and_is_never_negative(log_start, end, committed, start_from, lag):
    measured = measure_lag("t", 0, log_start=log_start, end=end, committed=committed, start_from=start_from)
    assert measured.lag == lag
    assert measured.no_commit is (committed is None)
