"""`headrace results`: results and dead letters, as they lie or as they come."""

import enum
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.options import ConfigFile
from headrace.cli.version_audit_view import audit_versions
from schemas.configuration import load_settings
from schemas.errors import ConfigurationError, UnavailableError

if TYPE_CHECKING:
    from producers.outcomes import Outcome
    from producers.result_reader import ResultReader
    from schemas.settings import TopicSettings


class Format(enum.StrEnum):
    """How outcomes are printed."""

    TABLE = "table"
    JSONL = "jsonl"


class From(enum.StrEnum):
    """Where reading begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("results")(results)


def results(  # noqa: PLR0913 - one parameter per option
    *,
    config: ConfigFile = None,
    follow: Annotated[bool, typer.Option(help="Go on at the end and print what comes.")] = False,
    output: Annotated[
        Format, typer.Option("--format", help="A table for people or JSON lines for programs.")
    ] = Format.TABLE,
    start: Annotated[From | None, typer.Option("--from", help="Default: latest with --follow, else earliest.")] = None,
    ids: Annotated[list[str] | None, typer.Option("--id", help="Only this request; may be repeated.")] = None,
    count: Annotated[int | None, typer.Option(min=1, help="Stop after so many outcomes.")] = None,
    timeout: Annotated[float | None, typer.Option(min=0.0, help="Stop after so many seconds.")] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Prove which version answered, instead: exit 0 when clean, 1 when not.")
    ] = False,
    no_timeline: Annotated[
        bool, typer.Option("--no-timeline", help="With --audit: ask neither Redis nor the control topic.")
    ] = False,
) -> None:
    """Print outcomes, dead letters included. With --id: exit 1 when one was not ok, 3 when one did not come.

    --id with --timeout waits so long for those that are not there yet.
    """
    from producers.result_reader import ResultReader  # noqa: PLC0415 - keeps --help instant

    settings = load_settings(config, os.environ)
    if audit:
        _refuse_beside_audit(follow, start, ids or None, count, timeout)
        audit_versions(settings, as_json=output is Format.JSONL, from_topic_alone=no_timeline)
        return
    begin = _begin(start, follow=follow)
    deadline = None if timeout is None else time.monotonic() + timeout
    tally = _Tally(set(ids or ()), count)
    waits = follow or (bool(ids) and timeout is not None)
    try:
        with ResultReader(settings.kafka, settings.topics.results, settings.topics.dead_letters, start=begin) as reader:
            tally.show(_read(reader, follow=waits, deadline=deadline), _printer(output))
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if not tally.printed and not ids:
        _say_nothing_came(settings.topics, is_new=begin == "latest")
    if tally.wanted:
        raise UnavailableError(f"no outcome of {', '.join(sorted(tally.wanted))} was found")
    if ids and not tally.all_ok:
        raise typer.Exit(ExitCode.FAILED)


def _refuse_beside_audit(*options: object) -> None:
    if any(option is not None and option is not False for option in options):
        raise ConfigurationError("--audit looks at every outcome: of the other options it takes --format only")


def _say_nothing_came(topics: "TopicSettings", *, is_new: bool) -> None:
    where = f"{topics.results} or {topics.dead_letters}"
    typer.echo(f"no {'new ' if is_new else ''}outcome in {where}{'' if is_new else ' yet'}", err=True)


class _Tally:
    """Prints the outcomes that are asked for and keeps count."""

    def __init__(self, ids: set[str], count: int | None) -> None:
        self._only = frozenset(ids)
        self._count = count
        self.wanted = ids
        self.printed = 0
        self.all_ok = True

    def show(self, outcomes: "Iterator[Outcome]", show: "Callable[[Outcome], None]") -> None:
        """Go on until the outcomes end, or enough of them were printed, or every id was met."""
        from producers.outcome_lines import is_ok  # noqa: PLC0415 - keeps --help instant

        for outcome in outcomes:
            if self._only and outcome.request_id not in self._only:
                continue
            self.wanted.discard(outcome.request_id)
            show(outcome)
            self.printed += 1
            self.all_ok = self.all_ok and is_ok(outcome)
            if self.printed == self._count or (self._only and not self.wanted):
                return


def _begin(start: From | None, *, follow: bool) -> Literal["latest", "earliest"]:
    if start is None:
        return "latest" if follow else "earliest"
    return "latest" if start is From.LATEST else "earliest"


def _read(reader: "ResultReader", *, follow: bool, deadline: float | None) -> "Iterator[Outcome]":
    if not follow:
        for outcome in reader.read_to_end():
            if deadline is not None and time.monotonic() >= deadline:
                return
            yield outcome
        return
    while deadline is None or time.monotonic() < deadline:
        left = 0.5 if deadline is None else max(0.0, min(0.5, deadline - time.monotonic()))
        yield from reader.poll(left)


def _printer(output: Format) -> "Callable[[Outcome], None]":
    from producers.outcome_lines import COLUMNS, outcome_cells, outcome_line  # noqa: PLC0415

    if output is Format.JSONL:
        return lambda outcome: print(outcome_line(outcome).decode(), flush=True)

    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(width=None if sys.stdout.isatty() else sum(width + 2 for _, width in COLUMNS))
    header = [True]

    def show(outcome: "Outcome") -> None:
        table = Table(box=None, show_header=header[0], pad_edge=False)
        for name, width in COLUMNS:
            table.add_column(name, width=width, no_wrap=True, overflow="ellipsis")
        # Text, not markup: an answer may contain square brackets.
        table.add_row(*(Text(cell) for cell in outcome_cells(outcome)))
        console.print(table)
        header[0] = False

    return show
