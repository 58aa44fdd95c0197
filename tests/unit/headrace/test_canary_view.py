from dataclasses import replace

from rich.console import Console

from headrace.cli.canary_view import PlainCanaryLines, draw_moment, outlive_terminal
from model_store.canary.contract import CanaryView, Side
from model_store.canary.judgment import Step
from model_store.switch_contract import SwitchView

NEW = Side("v2", 10, 250, 3, 2, 0.02, 41.26, 0.8123)
OLD = Side("v1", 90, 0, 0, 0, 0.0, None, None)
VIEW = CanaryView(2, 4, 12.0, 60.0, OLD, NEW, 0, Step.WAIT, "as good as before so far")


def drawn(view: SwitchView | CanaryView) -> str:
    console = Console(width=160, record=True, file=None, quiet=False)
    with console.capture() as captured:
        console.print(draw_moment(view))
    return captured.get()


def test_a_stage_is_a_table_of_both_versions() -> None:
    text = drawn(VIEW)

    assert "stage 2 of 4, 12 of 60 s" in text
    assert [line.split() for line in text.splitlines() if line.strip().startswith("v")] == [
        ["version", "share", "results", "expired", "dead", "letters", "error", "rate", "p95", "quality"],
        ["v2", "10%", "250", "3", "2", "2%", "41.3", "ms", "0.8123"],
        ["v1", "90%", "0", "0", "0", "0%", "-", "-"],
    ]
    assert "as good as before so far" in text
    assert "another version" not in text


def test_strays_are_shown() -> None:
    assert "7 results of another version than their key's" in drawn(replace(VIEW, strays=7))


def test_a_switch_is_drawn_as_switches_are() -> None:
    assert "preparing v2" in drawn(SwitchView("preparing v2", 3.0))


def test_markup_in_a_verdict_is_text() -> None:
    assert "[red]no" in drawn(replace(VIEW, verdict="[red]no"))


def test_lines_come_when_a_stage_a_step_or_a_sixth_of_the_window_is_new() -> None:
    lines: list[str] = []
    say = PlainCanaryLines(lines.append)

    say(SwitchView("arming epoch 3"))
    for seconds in (0.0, 3.0, 9.0, 11.0):
        say(replace(VIEW, elapsed_seconds=seconds))
    say(replace(VIEW, elapsed_seconds=11.5, step=Step.HALT, verdict="error rate"))
    say(replace(VIEW, elapsed_seconds=11.5, stage=3))

    assert lines[0] == "arming epoch 3"
    assert lines[1] == (
        "stage 2 of 4: v2 10%: 250 results, 2% errors, p95 41.3 ms, quality 0.8123; v1 90%: 0 results, 0% errors;"
        " as good as before so far"
    )
    assert len(lines) == 5
    assert lines[3].endswith("; error rate")
    assert lines[4].startswith("stage 3 of 4")


def test_a_terminal_that_is_gone_is_no_reason_to_fail() -> None:
    def show(_: object) -> None:
        raise BrokenPipeError

    outlive_terminal(show)(VIEW)
