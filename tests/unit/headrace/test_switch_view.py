from io import StringIO

from rich.console import Console

from headrace.cli.switch_view import PlainSwitchLines, draw_switch
from model_store.switch_contract import SwitchView
from model_store.switch_decisions import WorkerProgress, WorkerState

PREPARING = WorkerProgress("w0", WorkerState.PREPARING, "host")
READY = WorkerProgress("w0", WorkerState.READY, "host")
REFUSED = WorkerProgress("w1", WorkerState.REFUSED, "host", "[red]wrong hash")


def test_a_log_has_one_line_per_change() -> None:
    lines: list[str] = []
    show = PlainSwitchLines(lines.append)

    show(SwitchView("preparing new", 120, (PREPARING,)))
    show(SwitchView("preparing new", 119, (PREPARING,)))
    show(SwitchView("preparing new", 118, (READY, REFUSED)))
    show(SwitchView("arming epoch 2", 1, (READY,)))

    assert lines == [
        "preparing new", "  w0: preparing", "  w0: ready", "  w1: refused: [red]wrong hash", "arming epoch 2",
        "  w0: ready",
    ]  # fmt: skip


def test_a_terminal_has_a_row_per_worker_and_shows_what_it_says_as_it_is() -> None:
    console = Console(file=StringIO(), width=100)

    console.print(draw_switch(SwitchView("preparing new", 118.4, (READY, REFUSED))))

    text = console.file.getvalue()  # type: ignore[attr-defined]  # the StringIO from above
    assert "preparing new, 118 s left" in text
    assert "[red]wrong hash" in text
    assert all(word in text for word in ("w0", "w1", "ready", "refused"))
