"""What the demo knows of its streams."""

import pytest

from headrace.demo.scoreboard import Answer, Scoreboard


def make_answer(request_id: str, arrived_at: float, *, partition: int = 3, batch_size: int = 2) -> Answer:
    return Answer(
        request_id=request_id,
        label="tabby",
        probability=0.75,
        version="net v1, epoch 1",
        partition=partition,
        batch_size=batch_size,
        arrived_at=arrived_at,
    )


def test_lag_is_what_was_published_and_not_answered() -> None:
    board = Scoreboard(["a", "b"])
    for index in range(3):
        board.note_published(f"a-{index}", "a", 0.0)
    board.note_answer(make_answer("a-0", 0.1))
    board.note_refused("a-1")
    assert board.snapshot(0.2).lag == board.count_waiting() == 1


def test_a_stream_shows_its_newest_answer_and_its_rate() -> None:
    board = Scoreboard(["a", "b"])
    board.note_published("a-0", "a", 0.0)
    board.note_answer(make_answer("a-0", 0.5))
    snapshot = board.snapshot(1.0)
    stream, other = snapshot.streams
    assert (stream.published, stream.answered, stream.label, stream.probability) == (1, 1, "tabby", 0.75)
    assert stream.rate == 1.0
    assert (other.answered, other.label) == (0, "")
    assert snapshot.version == "net v1, epoch 1"


def test_latency_runs_from_publishing_to_arrival() -> None:
    board = Scoreboard(["a"])
    for index in range(4):
        board.note_published(f"a-{index}", "a", float(index))
        board.note_answer(make_answer(f"a-{index}", index + 0.25))
    snapshot = board.snapshot(4.0)
    assert (snapshot.p50_seconds, snapshot.p99_seconds) == (0.25, 0.25)
    assert board.overall_percentile(99) == 0.25


def test_a_repeated_or_unknown_answer_changes_nothing() -> None:
    board = Scoreboard(["a"])
    board.note_published("a-0", "a", 0.0)
    board.note_answer(make_answer("a-0", 0.1))
    board.note_answer(make_answer("a-0", 9.0))
    board.note_answer(make_answer("never-sent", 9.0))
    assert board.snapshot(9.0).streams[0].answered == 1
    assert board.arrivals() == {3: (0.1,)}


def test_batch_fill_and_partitions_come_from_the_answers() -> None:
    board = Scoreboard(["a", "b"])
    for name, size, partition in (("a-0", 2, 5), ("b-0", 4, 6)):
        board.note_published(name, name[0], 0.0)
        board.note_answer(make_answer(name, 0.1, batch_size=size, partition=partition))
    assert board.snapshot(0.2).batch_fill == pytest.approx(3.0)
    assert board.mean_batch_size() == pytest.approx(3.0)
    assert (board.stream_of(6), board.stream_of(7)) == ("b", "")


def test_an_empty_board_can_be_looked_at() -> None:
    snapshot = Scoreboard(["a"]).snapshot(0.0)
    assert (snapshot.lag, snapshot.batch_fill, snapshot.p50_seconds) == (0, 0.0, None)
