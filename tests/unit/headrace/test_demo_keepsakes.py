"""What the demo leaves behind."""

import json

from headrace.demo.footage import Footage
from headrace.demo.keepsakes import choose_rows, request_id, result_lines, summarise
from headrace.demo.kill import Kill
from headrace.demo.labels import top_label
from headrace.demo.scoreboard import Answer, Scoreboard
from headrace.demo.stream_ledger import balance
from producers.sources.item import Item
from tests.unit.headrace.demo_outcomes import make_dead_letter, make_result, make_sent


def make_footage(name: str, count: int) -> Footage:
    return Footage(name, [Item(index, bytes([index]), "image/jpeg", str(index)) for index in range(count)])


def test_the_sheet_shows_distinct_frames_of_the_first_showing_with_their_answers() -> None:
    outcomes = [make_result("a", sequence) for sequence in range(50)]
    books = balance({"a": make_sent("a", 50)}, outcomes)
    (row,) = choose_rows([make_footage("a", 11)], outcomes, books)
    assert [tile.jpeg for tile in row.tiles] == [bytes([index]) for index in (0, 2, 4, 6, 8, 10)]
    assert (row.tiles[0].label, row.tiles[0].probability) == ("tabby", 0.5)
    assert row.subtitle.startswith("50 frames sent, 50 answered, 0 missing")


def test_only_answered_frames_can_be_shown() -> None:
    (row,) = choose_rows([make_footage("a", 3)], [make_dead_letter("a", 0), make_result("a", 1)], balance({}, []))
    assert [tile.footnote for tile in row.tiles] == ["frame 1"]


def test_footage_is_played_in_a_loop_with_rising_sequence_numbers() -> None:
    footage = make_footage("a", 2)
    frames = [frame for frame, _ in zip(footage.play(), range(5), strict=False)]
    assert [frame.sequence for frame in frames] == [0, 1, 2, 3, 4]
    assert [frame.payload for frame in frames] == [b"\0", b"\1", b"\0", b"\1", b"\0"]


def test_results_and_dead_letters_become_json_lines_in_order() -> None:
    lines = [json.loads(line) for line in result_lines([make_result("a", 0), make_dead_letter("a", 1)]).splitlines()]
    assert [line["status"] for line in lines] == ["ok", "dead_letter"]
    assert lines[0]["output"] == [{"label": "tabby", "index": 281, "probability": 0.5}]
    assert lines[0]["source"] == {"topic": "requests", "partition": 0, "offset": 0}
    assert (lines[1]["stream"], lines[1]["error"]["code"]) == ("a", "invalid_input")


def test_the_summary_holds_the_books_and_the_pause_around_the_kill() -> None:
    board = Scoreboard(["a"])
    for sequence, arrived_at in enumerate([1.0, 1.2, 2.5]):
        board.note_published(request_id("a", sequence), "a", 0.5)
        board.note_answer(Answer(request_id("a", sequence), "tabby", 0.5, "v1", 4, 2, arrived_at))
    books = balance({"a": make_sent("a", 1)}, [make_result("a", 0)])
    summary = summarise(books, board, Kill(9, 1.3), {"cores": 2})
    assert summary["clean"] is True
    assert summary["kill"] == {
        "pid": 9,
        "longest_pause_seconds": 1.3,
        "partition": 4,
        "stream": "a",
        "longest_pause_before_seconds": 0.2,
    }
    assert (summary["cores"], summary["mean_batch_size"], summary["streams"][0]["sent"]) == (2, 2.0, 1)


def test_a_run_that_ended_before_its_kill_can_be_summarised() -> None:
    summary = summarise(balance({}, []), Scoreboard(["a"]), None, {})
    assert summary["kill"]["longest_pause_seconds"] is None
    assert summary["latency_p50_seconds"] is None


def test_the_likeliest_label_is_found_and_never_guessed() -> None:
    assert top_label(make_result("a", 0).output) == ("tabby", 0.5)
    assert top_label(make_result("a", 0, output=[]).output) == ("", 0.0)
    assert top_label(make_result("a", 0, output={"label": "tabby"}).output) == ("", 0.0)
    assert top_label(None) == ("", 0.0)
