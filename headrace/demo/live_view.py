"""What the demo shows while it runs: a live page on a terminal, one line every few seconds elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headrace.demo.scoreboard import Snapshot, StreamSnapshot
from headrace.demo.stream_ledger import Books, StreamBook

_BAR_WIDTH = 12


@dataclass(frozen=True)
class Moment:
    """Everything that is shown at one moment of the run. `kill` is empty until a member was killed."""

    snapshot: Snapshot
    elapsed_seconds: float
    total_seconds: float
    max_batch_size: int
    supervisor_pid: int
    member_pids: Sequence[int]
    model_pids: Sequence[int]
    kill: str


def live_page(moment: Moment) -> RenderableType:
    """Lay out one moment as a page."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for title in ("stream", "published", "answered", "fps", "newest answer", ""):
        table.add_column(title, justify="right" if title in ("published", "answered", "fps") else "left", no_wrap=True)
    for stream in moment.snapshot.streams:
        table.add_row(
            Text(stream.name, style="bold cyan"),
            str(stream.published),
            str(stream.answered),
            f"{stream.rate:.1f}",
            stream.label or "…",
            probability_bar(stream.probability),
        )
    lines = [Text(f"{name:<10}{value}") for name, value in _facts(moment)]
    title = f"Headrace demo · {moment.snapshot.version or 'waiting for the first answer'}"
    clock = f"{moment.elapsed_seconds:.0f} s of {moment.total_seconds:.0f} s"
    return Panel(Group(table, Text(), *lines), title=title, subtitle=clock, title_align="left", subtitle_align="right")


def plain_line(moment: Moment) -> str:
    """Say the same in one line, for logs."""
    streams = "  ".join(_brief(stream) for stream in moment.snapshot.streams)
    latency = f"p50 {milliseconds(moment.snapshot.p50_seconds)} p99 {milliseconds(moment.snapshot.p99_seconds)}"
    numbers = f"lag {moment.snapshot.lag}  fill {_fill(moment)}  {latency}"
    return f"streaming {moment.elapsed_seconds:4.1f} s of {moment.total_seconds:.0f} s  {numbers}  {streams}"


def probability_bar(probability: float) -> Text:
    """Draw a probability as a bar and a number."""
    filled = round(min(1.0, max(0.0, probability)) * _BAR_WIDTH)
    bar = Text("━" * filled, style="green" if probability >= 0.5 else "yellow")
    return bar + Text("━" * (_BAR_WIDTH - filled), style="dim") + Text(f" {probability:4.0%}")


def milliseconds(seconds: float | None) -> str:
    """Show a time in whole milliseconds; a dash when there is none."""
    return "-" if seconds is None else f"{seconds * 1000:.0f} ms"


def ledger_table(books: Books) -> Table:
    """Lay out the books of all streams, faults in red, with their sum."""
    table = Table(title="Ledger, read again from offset 0 (read_committed)", title_justify="left", title_style="bold")
    names = ("stream", "sent", "results", "dead letters", "missing", "doubled", "out of order")
    for name in names:
        table.add_column(name, justify="left" if name == "stream" else "right")
    rows = [_numbers(book) for book in books.streams]
    for book, numbers in zip(books.streams, rows, strict=True):
        table.add_row(book.name, *_colour(numbers))
    table.add_section()
    table.add_row("all", *_colour([sum(column) for column in zip(*rows, strict=True)]), style="bold")
    return table


def _numbers(book: StreamBook) -> list[int]:
    return [book.sent, book.results, book.dead_letters, book.missing, book.doubled, book.out_of_order]


def _colour(numbers: Sequence[int]) -> list[Text]:
    first_fault = 3
    return [
        Text(str(number), style="bold red" if index >= first_fault and number else "")
        for index, number in enumerate(numbers)
    ]


def _facts(moment: Moment) -> list[tuple[str, str]]:
    snapshot = moment.snapshot
    pids = f"supervisor {moment.supervisor_pid}, members {_pids(moment.member_pids)}"
    return [
        ("lag", f"{snapshot.lag} requests published and not yet answered"),
        ("latency", f"p50 {milliseconds(snapshot.p50_seconds)}, p99 {milliseconds(snapshot.p99_seconds)} (last 5 s)"),
        ("batches", f"{_fill(moment)} records in a batch"),
        ("processes", f"{pids}, models {_pids(moment.model_pids)}"),
        ("kill", moment.kill or "halfway one member will be killed with SIGKILL"),
    ]


def _fill(moment: Moment) -> str:
    return f"{moment.snapshot.batch_fill:.1f} of {moment.max_batch_size}"


def _pids(pids: Sequence[int]) -> str:
    return " ".join(str(pid) for pid in pids) or "-"


def _brief(stream: StreamSnapshot) -> str:
    return f"{stream.name} {stream.rate:.1f} fps {stream.label or '…'} {stream.probability:.0%}"
