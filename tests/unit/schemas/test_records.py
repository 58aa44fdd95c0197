"""Records: positions and their names."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.records import Position, Request, ResultBody, Status, Timings


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 2**62)), min_size=1))
def test_positions_are_ordered_by_topic_partition_and_offset(places):
    assert [(p.topic, p.partition, p.offset) for p in sorted(Position(*place) for place in places)] == sorted(places)


def test_a_position_reads_as_topic_partition_offset():
    assert str(Position("t", 1, 2)) == "t-1-2"


def test_a_request_knows_its_position():
    request = Request(
        id="r", topic="t", partition=1, offset=2, timestamp_ms=3, key=None, payload=b"", content_type="text/plain"
    )
    assert request.position == Position("t", 1, 2)


def test_a_record_cannot_be_changed():
    with pytest.raises(AttributeError):
        Position("t", 1, 2).offset = 3


@given(st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(), st.lists, max_leaves=5))
def test_any_json_answer_survives_a_result_body(answer):
    body = ResultBody(
        status=Status.OK,
        output=msgspec.Raw(msgspec.json.encode(answer)),
        source=Position("t", 0, 1),
        timings=Timings(queue_ms=0.0, model_ms=1.0, batch_size=2),
    )
    decoded = msgspec.json.decode(msgspec.json.encode(body), type=ResultBody)
    assert msgspec.json.decode(decoded.output) == answer
    assert decoded.source == body.source
