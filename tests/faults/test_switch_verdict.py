"""What the soak of switches calls held, and what it must not."""

import json
from collections.abc import Sequence

import pytest

from model_store.timeline import SwitchMode, TimelineEntry
from tests.faults.answer_watch import Window
from tests.faults.switch_answers import Answers, GivenAnswer, count_differing, count_impostors
from tests.faults.switch_log import Meeting, read_meetings
from tests.faults.switch_rounds import EXACT, ROLLBACK, Round
from tests.faults.switch_verdict import judge_latency, judge_memory, judge_rollbacks, judge_rounds, judge_stalls


def made(number: int, kind: str = ROLLBACK, **varied: object) -> Round:
    """Decided half a second after its beginning, over after three."""
    at = 100 + 10 * number
    mode = SwitchMode.EXACT if kind == EXACT else SwitchMode.NOW
    entry = TimelineEntry(number + 2, {"v": 1}, 1000 * at + 500, mode, 1000 * at + 500)
    facts = {"by_command": False, "began": float(at), "ended": at + 3.0, "result": "done", "entry": entry}
    return Round(number, kind, **{**facts, **varied})  # type: ignore[arg-type]  # fields by name


def answer(output: bytes, version: str = "v1", epoch: int = 1) -> GivenAnswer:
    return GivenAnswer(output, "m", version, epoch, "fp32")


def answers(*given: GivenAnswer) -> Answers:
    places = {("t", 0, offset): one for offset, one in enumerate(given)}
    return Answers(places, {place: 2 * place[2] for place in places}, [])


def test_memory_is_compared_with_the_fifth_switch_and_may_grow_by_a_tenth() -> None:
    sizes = [10, 10, 10, 10, 100, 500, 110]
    (row,) = judge_memory([made(number, memory_bytes=size << 20) for number, size in enumerate(sizes)])
    assert row.is_held
    (row,) = judge_memory([made(number, memory_bytes=size << 20) for number, size in enumerate([*sizes, 111])])
    assert row.is_held is False
    assert judge_memory([made(0)]) == []


@pytest.mark.parametrize(("during", "is_held"), [(0.11, True), (0.12, False)])
def test_latency_during_switches_may_exceed_that_between_them_by_one_batch(during: float, is_held: bool) -> None:
    rounds = [made(0, by_command=True), made(1, EXACT), made(2, fault="redis"), made(3)]

    def latencies(windows: Sequence[Window]) -> list[float]:
        if list(windows) == [(103.0, 110.0), (113.0, 120.0)]:
            return [0.1]
        return [during] if list(windows) == [(110.5, 111.5), (130.5, 131.5)] else [9.0]

    assert [row.is_held for row in judge_latency(rounds, latencies, 0.015)] == [None, None, is_held]


def test_a_rollback_counts_when_the_last_worker_has_met_it() -> None:
    fast, slow = {2: Meeting(100.51, 100.52)}, {2: Meeting(100.55, 100.59)}
    rows = judge_rollbacks([made(0), made(1, fault="member"), made(2, EXACT)], [fast, slow])
    assert [row.is_held for row in rows] == [None, True]
    assert "max 90.0 ms (1)" in rows[1].value
    slow[2] = Meeting(100.55, 100.61)
    assert judge_rollbacks([made(0)], [fast, slow])[1].is_held is False


def test_stalls_of_disturbed_switches_are_told_apart() -> None:
    rows = judge_stalls([made(0), made(1, fault="member")], [{2: Meeting(1, 1, 0.5), 3: Meeting(1, 1, 900.0)}])
    assert [(row.what, "900" in row.value) for row in rows] == [("stall", False), ("stall, disturbed", True)]


def test_a_switch_that_came_to_nothing_twice_or_ended_wrongly_is_not_held() -> None:
    assert judge_rounds([made(0), made(1, called_off=1)])[-1].is_held
    assert judge_rounds([made(0, entry=None)])[-1].is_held is False
    assert judge_rounds([made(0, stuck="lost")])[-1].is_held is False


def test_an_answer_under_the_name_of_another_version_is_found() -> None:
    one, two = answer(b"1"), answer(b"2", "v2")
    assert count_impostors(answers(one, one, two, two), 2) == 0
    assert count_impostors(answers(one, one, answer(b"2"), two, two), 2) == 1
    with pytest.raises(ValueError, match="v1 and v2"):
        count_impostors(answers(one, answer(b"1", "v2")), 2)


def test_a_replay_is_compared_byte_by_byte_as_far_as_the_timeline_reaches() -> None:
    first = answers(answer(b"1", epoch=1), answer(b"2", epoch=5), answer(b"3", epoch=6))
    again = answers(answer(b"0", epoch=5), answer(b"2", epoch=5), answer(b"3", "v2", epoch=6))
    assert count_differing(first, again, 5) == (2, 1)
    assert count_differing(first, again, 6) == (1, 1)
    assert count_differing(first, answers(), 1) == (3, 3)


def test_a_members_log_says_when_it_met_each_decision() -> None:
    lines = [
        "not json",
        json.dumps({"event": "timeline adopted", "epoch": 2, "timestamp": "1970-01-01T00:00:10.5Z"}),
        json.dumps({"event": "timeline adopted", "epoch": 3, "timestamp": "1970-01-01T00:00:12Z"}),
        json.dumps({"event": "switch met", "epoch": 3, "stalled_ms": 0.5, "timestamp": "1970-01-01T00:00:13Z"}),
    ]
    assert read_meetings(lines) == {2: Meeting(10.5), 3: Meeting(12.0, 13.0, 0.5)}
