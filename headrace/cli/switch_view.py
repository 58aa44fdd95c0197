"""Shows a switch while it goes on: a live table of the workers on a terminal, a line per change everywhere else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from model_store.switch_contract import SwitchView
    from model_store.switch_decisions import WorkerProgress


@contextmanager
def show_switch() -> Iterator[Callable[["SwitchView"], None]]:
    """A function that shows the present moment on stderr. Stdout stays free for the command's answer."""
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        yield PlainSwitchLines(lambda line: print(line, file=sys.stderr, flush=True))
        return
    from rich.console import Console  # noqa: PLC0415 only a terminal needs it
    from rich.live import Live  # noqa: PLC0415

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        yield lambda view: live.update(draw_switch(view), refresh=True)


class PlainSwitchLines:
    """Says what has changed since the last moment, in lines for a log."""

    def __init__(self, print_line: Callable[[str], None]) -> None:
        self._print = print_line
        self._stage = ""
        self._rows: dict[str, WorkerProgress] = {}

    def __call__(self, view: "SwitchView") -> None:
        """Print what is new in this moment."""
        if view.stage != self._stage:
            self._stage, self._rows = view.stage, {}
            self._print(view.stage)
        for row in view.rows:
            if self._rows.get(row.worker) != row:
                self._rows[row.worker] = row
                self._print(f"  {row.worker}: {row.state.value}" + (f": {row.detail}" if row.detail else ""))


def draw_switch(view: "SwitchView") -> "Table":
    """Lay out one moment as a table."""
    from rich.table import Table  # noqa: PLC0415 only a terminal needs it
    from rich.text import Text  # noqa: PLC0415

    left = f", {view.seconds_left:.0f} s left" if view.seconds_left > 0 else ""
    table = Table(title=Text(f"{view.stage}{left}"), title_justify="left", box=None, padding=(0, 2))
    for heading in ("worker", "host", "state", ""):
        table.add_column(heading, header_style="dim")
    for row in view.rows:
        # Text and not markup: what a worker says is shown as it is.
        table.add_row(*(Text(cell) for cell in (row.worker, row.host, row.state.value, row.detail)))
    return table
