"""Outcomes as they are read, remembered and printed."""

import json

import msgspec
import pytest

from producers.outcome_lines import COLUMNS, is_ok, outcome_cells, outcome_line
from producers.outcomes import OutcomeMemory, Record, decode_outcome
from schemas.errors import EnvelopeError
from schemas.records import Position, Status
from tests.fakes.kafka_pair import dead_letter, result


def test_an_outcome_that_was_not_waited_for_is_kept_for_later():
    memory = OutcomeMemory()
    memory.add([result("a"), result("b")])
    first = {"b"}
    assert [outcome.request_id for outcome in memory.take(first)] == ["b"]
    assert first == set()
    assert [outcome.request_id for outcome in memory.take({"a", "b"})] == ["a"]


def test_the_first_outcome_of_an_id_counts():
    memory = OutcomeMemory()
    memory.add([result("a", version="v1"), result("a", version="v2")])
    assert [outcome.version for outcome in memory.take({"a"})] == ["v1"]


def test_the_oldest_are_forgotten_first_and_never_before_they_could_be_taken():
    memory = OutcomeMemory(size=2)
    memory.add([result(name) for name in "abcd"])
    assert [outcome.request_id for outcome in memory.take({"a"})] == ["a"]
    assert [outcome.request_id for outcome in memory.take({"b", "c", "d"})] == ["c", "d"]


@pytest.mark.parametrize("topic", ["results", "dead"])
def test_a_tombstone_is_no_outcome(topic):
    record = Record(Position(topic, 0, 1), 0, b"key", None, [])
    with pytest.raises(EnvelopeError, match=f"{topic}-0-1"):
        decode_outcome(record, dead_letters_topic="dead")


def test_a_result_is_printed_as_one_json_object():
    line = json.loads(outcome_line(result("a", key=b"\xff")))
    assert (line["kind"], line["status"], line["output"], line["key"]) == ("result", "ok", 1, "\ufffd")


def test_a_dead_letter_is_printed_with_its_error_and_without_its_payload():
    text = outcome_line(dead_letter("a", payload=b"secret"))
    line = json.loads(text)
    assert (line["kind"], line["status"], line["error"]["code"]) == ("dead_letter", "rejected", "model_failure")
    assert b"secret" not in text


@pytest.mark.parametrize(
    ("outcome", "status", "ok"),
    [
        (result("a"), "ok", True),
        (result("a", status=Status.EXPIRED, output=None), "expired", False),
        (dead_letter("a"), "rejected", False),
    ],
)
def test_a_table_row_names_the_status(outcome, status, ok):
    cells = outcome_cells(outcome)
    assert len(cells) == len(COLUMNS)
    assert cells[1] == status
    assert is_ok(outcome) is ok


def test_a_table_row_cannot_take_over_the_terminal():
    cells = outcome_cells(result("a\0\x1b[31m\x9b2J\nb\u202e"))
    assert cells[0] == "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}2J b\ufffd"


def test_an_answer_is_read_as_a_value():
    assert result("a", output=msgspec.Raw(b'{"x":[1,null]}')).answer == {"x": [1, None]}
    assert result("a", status=Status.EXPIRED, output=None).answer is None
