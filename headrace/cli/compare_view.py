"""Shows how a shadow version differs: a live table while it is followed, the same once at the end."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from producers.shadow_tally import LatencySketch, PairTally, ShadowTally
    from schemas.shadow_records import ShadowRecord

_WIDTH_WITHOUT_TERMINAL = 200


@contextmanager
def show_comparison(*, live: bool) -> Iterator[Callable[["ShadowTally"], None]]:
    """A function that shows the present state on stderr; it shows nothing where there is no terminal, or not `live`."""
    if not live or not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console  # noqa: PLC0415 only a terminal needs it
    from rich.live import Live  # noqa: PLC0415

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as screen:
        yield lambda tally: screen.update(draw_comparison(tally), refresh=True)


def print_comparison(tally: "ShadowTally") -> None:
    """Print the state on stdout."""
    from rich.console import Console  # noqa: PLC0415 - keeps --help instant

    Console(width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL).print(draw_comparison(tally))


def draw_comparison(tally: "ShadowTally") -> "RenderableType":
    """Lay out the pairs of versions, and under them the most different requests."""
    from rich.console import Group  # noqa: PLC0415 - keeps --help instant
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    pairs = Table(box=None, padding=(0, 2))
    for heading in ("shadow", "answered by"):
        pairs.add_column(heading, header_style="dim")
    for heading in ("compared", "failed", "agree", "other label", "mean diff", "max diff", "p50 both", "p95 both"):
        pairs.add_column(heading, header_style="dim", justify="right")
    worst = Table(box=None, padding=(0, 2), title=Text("most different"), title_justify="left")
    for heading in ("request", "at", "shadow", "difference", "where"):
        worst.add_column(heading, header_style="dim", overflow="fold")
    for pair in tally.pairs.values():
        # Text and not markup: what lies on the topic is shown as it is.
        pairs.add_row(*(Text(cell) for cell in _list_cells(pair)))
        for record in pair.list_worst():
            worst.add_row(*(Text(cell) for cell in _list_worst_cells(record)))
    return Group(pairs, worst) if worst.row_count else pairs


def _list_cells(pair: "PairTally") -> tuple[str, ...]:
    return (
        pair.shadow,
        pair.version,
        str(pair.count),
        str(pair.failed.total()),
        "-" if pair.agreement is None else f"{100 * pair.agreement:.4g}%",
        str(pair.label_changes),
        _number(pair.mean_difference),
        _number(pair.max_difference),
        _latencies(pair.shadow_ms, pair.active_ms, 50),
        _latencies(pair.shadow_ms, pair.active_ms, 95),
    )


def _list_worst_cells(record: "ShadowRecord") -> tuple[str, ...]:
    from schemas.errors import one_line  # noqa: PLC0415 - keeps --help instant

    body = record.body
    if body.failure is not None:
        what, where = "failed", f"{body.failure.code}: {body.failure.message}"
    else:
        what = f"{body.label.active} -> {body.label.shadow}" if body.label is not None else _number(body.max_difference)
        where = ", ".join(change.pointer or "(whole)" for change in body.changes[:3])
        where += f" and {body.changed - 3} more" if body.changed > 3 else ""
    return tuple(map(one_line, (record.request_id, str(body.source), record.shadow, what, where)))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _latencies(shadow: "LatencySketch", active: "LatencySketch", percent: float) -> str:
    """The shadow's first, as everywhere in the row."""
    values = (shadow.percentile(percent), active.percentile(percent))
    return " / ".join("-" if value is None else f"{value:.3g}" for value in values) + " ms"
