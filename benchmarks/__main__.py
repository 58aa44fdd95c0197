"""`python -m benchmarks`: Headrace against its limits, against loops written by hand, and against its peers.

Every contestant of a round reads the same backlog from the same broker with a group of its own and writes to a fresh
topic, one after the other; the order turns with every round. Records are read as a read_committed reader sees them;
ids and answers are checked in every run.
"""

import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.environments.environment import Environments, EnvironmentUnavailableError
from benchmarks.options import Options, read_options
from benchmarks.report.files import write_report
from benchmarks.report.section import Section, Skipped
from benchmarks.report.tables import render_table
from benchmarks.runner.arena import Arena
from benchmarks.runner.machine import describe_machine
from benchmarks.runner.processes import ContestantFailedError
from benchmarks.scenarios.catalogue import QUICK, SCENARIOS
from benchmarks.scenarios.scenario import Context
from headrace.local_stack.stack import LocalStack

_PLAIN_COLUMNS = 160


def main(argv: Sequence[str] | None = None) -> None:
    """Run what was asked for, print it and write the report."""
    options = read_options(argv, list(SCENARIOS), QUICK)
    # As Ctrl-C does: contestants are ended on the way out, and not left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    terminal = Console()
    console = terminal if terminal.is_terminal else Console(width=_PLAIN_COLUMNS)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="headrace-benchmark-") as name:
        folder = Path(name)
        with LocalStack(folder / "stack", heap_mb=1024) as stack:
            sections = _run_all(stack, folder, options, console)
    about = _describe_run(options, (time.monotonic() - began) / 60)
    for path in write_report(options.out, sections, describe_machine(), about):
        console.print(f"wrote {path}", highlight=False)


def _run_all(stack: LocalStack, folder: Path, options: Options, console: Console) -> list[Section]:
    """A function of its own, so that no client outlives the broker."""
    sections, began = [], time.monotonic()
    with console.status("starting") as status:

        def say(text: str) -> None:
            status.update(text)
            console.print(f"[dim]{(time.monotonic() - began) / 60:5.1f} min[/dim] {text}", highlight=False)

        context = Context(Arena(stack, folder, Environments()), options, say)
        for name in options.only:
            sections.append(_run(name, context))
            console.print(render_table(sections[-1]))
            _print_notes(console, sections[-1])
    return sections


def _run(name: str, context: Context) -> Section:
    scenario = SCENARIOS[name]
    try:
        return scenario.run(context)
    except (EnvironmentUnavailableError, ContestantFailedError) as error:
        return Section(name, "not run", (), skipped=[Skipped("all", str(error))])


def _print_notes(console: Console, section: Section) -> None:
    for note in section.notes:
        console.print(f"- {note}", highlight=False)
    for one in section.skipped:
        console.print(f"- left out: {one.contestant}: {one.reason}", style="yellow", highlight=False)


def _describe_run(options: Options, minutes: float) -> list[str]:
    kind = "check of answers on small backlogs" if options.is_check else f"{options.rounds} alternating rounds"
    return [
        f"{'Quick run' if options.is_quick else 'Run'} of {time.strftime('%Y-%m-%d')}: {kind}, {minutes:.0f} minutes.",
        "",
        "Figures are medians of the rounds. Everybody but Headrace runs at least once; Headrace says which it is.",
        "A round counts as busy when processes that are not the benchmark's used more than 0.15 cores beside it.",
    ]


if __name__ == "__main__":
    main()
