"""What the demo shows while it runs."""

import io

from rich.console import Console

from headrace.demo.live_view import Moment, ledger_table, live_page, milliseconds, plain_line, probability_bar
from headrace.demo.scoreboard import Snapshot, StreamSnapshot
from headrace.demo.screen import PlainScreen
from headrace.demo.stream_ledger import Books, StreamBook


def make_moment(*, elapsed_seconds: float = 12.0, kill: str = "") -> Moment:
    stream = StreamSnapshot("bikes", 60, 58, 5.0, "mountain bike", 0.81)
    return Moment(
        snapshot=Snapshot([stream], 2, 1.5, 0.123, 0.456, "net v1, epoch 1"),
        elapsed_seconds=elapsed_seconds,
        total_seconds=40.0,
        max_batch_size=8,
        supervisor_pid=100,
        member_pids=[101, 102],
        model_pids=[103],
        kill=kill,
    )


def draw(renderable: object) -> str:
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    console.print(renderable)
    return console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO from two lines above


def test_the_live_page_shows_streams_numbers_and_processes() -> None:
    page = draw(live_page(make_moment()))
    for text in (
        "bikes",
        "mountain bike",
        "81%",
        "p50 123 ms",
        "p99 456 ms",
        "1.5 of 8",
        "members 101 102",
        "12 s of 40",
    ):
        assert text in page


def test_the_kill_is_announced_and_then_described() -> None:
    assert "will be killed" in draw(live_page(make_moment()))
    assert "member 101 killed" in draw(live_page(make_moment(kill="member 101 killed 1 s ago")))


def test_the_plain_line_says_the_same_on_one_line() -> None:
    line = plain_line(make_moment())
    assert "\n" not in line
    for text in ("12.0 s", "lag 2", "fill 1.5 of 8", "p99 456 ms", "bikes 5.0 fps mountain bike 81%"):
        assert text in line


def test_the_plain_screen_prints_a_line_every_five_seconds_only() -> None:
    console = Console(file=io.StringIO(), width=200)
    with PlainScreen(console) as screen:
        for elapsed in (0.0, 1.0, 4.9, 5.1, 6.0):
            screen.show(make_moment(elapsed_seconds=elapsed))
    assert console.file.getvalue().count("lag 2") == 2  # type: ignore[attr-defined]  # it is a StringIO


def test_a_probability_is_drawn_within_its_bar() -> None:
    assert probability_bar(1.0).plain.count("━") == probability_bar(0.0).plain.count("━") == 12
    assert probability_bar(0.25).plain.endswith(" 25%")


def test_the_ledger_table_has_a_row_per_stream_and_their_sum() -> None:
    books = Books([StreamBook("a", 10, 9, 1, 0, 0, 0), StreamBook("b", 5, 4, 0, 1, 0, 0)], {"missing": 1})
    table = draw(ledger_table(books))
    total = next(line for line in table.splitlines() if " all " in line)
    assert [word for word in total.split() if word.isdigit()] == ["15", "13", "1", "1", "0", "0"]


def test_a_missing_time_is_a_dash() -> None:
    assert (milliseconds(None), milliseconds(0.0154)) == ("-", "15 ms")
