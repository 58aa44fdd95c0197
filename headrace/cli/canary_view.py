"""Shows a canary while it goes on: a live table on a terminal, lines for a log everywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from headrace.cli.switch_view import PlainSwitchLines, draw_switch

if TYPE_CHECKING:
    from rich.table import Table

    from model_store.canary.contract import CanaryView, Side
    from model_store.canary.judgment import Step
    from model_store.switch_contract import SwitchView

LINES_PER_WINDOW = 6


@contextmanager
def show_canary() -> Iterator[Callable[["SwitchView | CanaryView"], None]]:
    """A function that shows the present moment on stderr. Stdout stays free for the command's answer."""
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield outlive_terminal(PlainCanaryLines(lambda line: print(line, file=sys.stderr, flush=True)))
        return
    from rich.console import Console  # noqa: PLC0415 only a terminal needs it
    from rich.live import Live  # noqa: PLC0415

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        yield outlive_terminal(lambda view: live.update(draw_moment(view), refresh=True))


def outlive_terminal(
    show: Callable[["SwitchView | CanaryView"], None],
) -> Callable[["SwitchView | CanaryView"], None]:
    """Make a function that bears the loss of its terminal, which must not keep a canary from going back."""

    def show_if_possible(view: "SwitchView | CanaryView") -> None:
        with suppress(OSError):
            show(view)

    return show_if_possible


class PlainCanaryLines:
    """Says what both versions have come to, some times in a window and whenever a stage or a verdict is new."""

    def __init__(self, print_line: Callable[[str], None]) -> None:
        self._print = print_line
        self._switch_lines = PlainSwitchLines(print_line)
        self._said: tuple[int, int, Step] | None = None

    def __call__(self, view: "SwitchView | CanaryView") -> None:
        """Print what is new in this moment."""
        from model_store.canary.contract import CanaryView  # noqa: PLC0415 - keeps --help instant

        if not isinstance(view, CanaryView):
            self._switch_lines(view)
            return
        part = int(LINES_PER_WINDOW * view.elapsed_seconds / view.window_seconds)
        said = (view.stage, part, view.step)
        if said != self._said:
            self._said = said
            self._print(
                f"{_describe_stage(view)}: {describe_side(view.new)}; {describe_side(view.old)}; {view.verdict}"
            )


def describe_side(side: "Side") -> str:
    """Write a version's results in a line."""
    parts = [f"{side.version} {side.share}%: {side.results} results", f"{100 * side.error_rate:.3g}% errors"]
    if side.p95_ms is not None:
        parts.append(f"p95 {side.p95_ms:.3g} ms")
    if side.quality is not None:
        parts.append(f"quality {side.quality:.4g}")
    return ", ".join(parts)


def draw_moment(view: "SwitchView | CanaryView") -> "Table":
    """Lay out one moment as a table."""
    from rich.table import Table  # noqa: PLC0415 only a terminal needs it
    from rich.text import Text  # noqa: PLC0415

    from model_store.canary.contract import CanaryView  # noqa: PLC0415 - keeps --help instant

    if not isinstance(view, CanaryView):
        return draw_switch(view)
    title = f"{_describe_stage(view)}, {view.elapsed_seconds:.0f} of {view.window_seconds:.0f} s"
    strays = f"; {view.strays} results of another version than their key's" if view.strays else ""
    table = Table(
        title=Text(title), caption=Text(view.verdict + strays), title_justify="left", caption_justify="left",
        box=None, padding=(0, 2),
    )  # fmt: skip
    headings = ("version", "share", "results", "expired", "dead letters", "error rate", "p95", "quality")
    for heading in headings:
        table.add_column(heading, header_style="dim", justify="left" if heading == "version" else "right")
    for side in (view.new, view.old):
        table.add_row(*(Text(cell) for cell in _list_cells(side)))
    return table


def _describe_stage(view: "CanaryView") -> str:
    return f"stage {view.stage} of {view.stages}"


def _list_cells(side: "Side") -> tuple[str, ...]:
    return (
        side.version,
        f"{side.share}%",
        str(side.results),
        str(side.expired),
        str(side.dead_lettered),
        f"{100 * side.error_rate:.3g}%",
        "-" if side.p95_ms is None else f"{side.p95_ms:.3g} ms",
        "-" if side.quality is None else f"{side.quality:.4g}",
    )
