"""`headrace models active` and `history`: what answers now at which worker, and what was decided before."""

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.model_access import open_control_plane
from headrace.cli.options import ConfigFile
from headrace.cli.shadow_commands import read_shadow_lines
from schemas.configuration import load_settings
from schemas.errors import ConfigurationError, UnavailableError

if TYPE_CHECKING:
    from rich.table import Table

    from model_store.timeline import Timeline
    from model_store.version_history import CutArchive, Cuts, HistoryRow
    from model_store.worker_reports import Candidate, Roster, WorkerReport
    from schemas.settings import Settings

Name = Annotated[str, typer.Argument(help="The model's name.")]
_WIDTH_WITHOUT_TERMINAL = 200
_KAFKA_SECONDS = 5.0


def register(models: typer.Typer) -> None:
    """Add the commands."""
    models.command("active")(active)
    models.command("history")(history)


def active(name: Name, *, config: ConfigFile = None) -> None:
    """Print the active versions, a switch that is still to come, and every worker. Exits 1 when none is active."""
    settings = load_settings(config, os.environ)
    with open_control_plane(settings) as (live, workers):
        timeline = live.read(name)
        if timeline is None:
            typer.echo(f"{name}: no active version", err=True)
            raise typer.Exit(ExitCode.FAILED)
        for line in describe_pointer(name, timeline, _now_ms()):
            typer.echo(line)
        roster, candidate = workers.read_workers(name), workers.read_candidate(name)
    if candidate is not None:
        typer.echo(f"{name} {', '.join(candidate.versions)} in preparation for {candidate.by or 'somebody'}")
    for line in read_shadow_lines(settings, name, timeline):
        typer.echo(line)
    if roster.reports or roster.unreadable:
        _print_table(draw_workers(roster, candidate))
    else:
        typer.echo(f"no worker of {name} lives", err=True)


def history(name: Name, *, config: ConfigFile = None) -> None:
    """Print who decided what and when, newest first, and where each partition was cut. Exits 1 when nothing was."""
    from model_store.version_history import list_history  # noqa: PLC0415 - keeps --help instant

    settings = load_settings(config, os.environ)
    with open_control_plane(settings) as (live, _):
        timeline = live.read(name)
    if timeline is None:
        typer.echo(f"{name}: no active version, now or before", err=True)
        raise typer.Exit(ExitCode.FAILED)
    _print_table(draw_history(list_history(timeline, _read_cuts(settings, name), _now_ms())))
    for line in read_shadow_lines(settings, name, timeline):
        typer.echo(line)


def find_cut_archive(settings: "Settings") -> "CutArchive | None":
    """Where recorded cuts can be read with these settings; None when they name no Kafka."""
    from producers.recorded_cuts import RecordedCuts  # noqa: PLC0415 - keeps --help instant

    if "bootstrap" not in settings.kafka.model_fields_set:
        return None
    return RecordedCuts(settings.kafka, settings.topics.control, start_timeout_seconds=_KAFKA_SECONDS)


def _read_cuts(settings: "Settings", name: str) -> "Cuts":
    """Read the cuts, or say why they are left out: the decisions are worth printing without them."""
    archive = find_cut_archive(settings)
    try:
        return {} if archive is None else archive.read_cuts(name)
    except (UnavailableError, ConfigurationError) as error:
        typer.echo(f"cuts are left out: {error}", err=True)
        return {}


def describe_pointer(name: str, timeline: "Timeline", now_ms: int) -> list[str]:
    """Return a line for the decision that holds now, and one for a switch that is still to come."""
    from model_store.version_history import describe_split, describe_time, find_current  # noqa: PLC0415 - quick --help

    lines = []
    current, latest = find_current(timeline, now_ms), timeline.latest
    if current is not None:
        lines.append(f"{name} {describe_split(current.split)} epoch {current.epoch}")
    if latest is not None and current is not None and latest.split != current.split:
        seconds = (latest.effective_from_ms - now_ms) / 1000
        when = f"from {describe_time(latest.effective_from_ms)}, in {seconds:.1f} s"
        lines.append(f"{name} {describe_split(latest.split)} epoch {latest.epoch} armed {when}")
    return lines


def draw_workers(roster: "Roster", candidate: "Candidate | None") -> "Table":
    """Lay out the reports as a table."""
    from rich.table import Table  # noqa: PLC0415 - keeps --help instant
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None, padding=(0, 2))
    has_shadow = any(report.shadow is not None for report in roster.reports)
    headings = (
        "worker",
        "host",
        "process",
        "epoch",
        "serves",
        "warm",
        "preparation",
        *(("shadow",) if has_shadow else ()),
    )
    for heading in headings:
        table.add_column(heading, header_style="dim")
    for report in roster.reports:
        cells = (
            report.worker,
            report.host,
            str(report.pid),
            str(report.epoch),
            ", ".join(report.serving),
            ", ".join(report.warm),
            _describe_preparation(report, candidate),
            *((_describe_shadow(report),) if has_shadow else ()),
        )
        # Text and not markup: what a worker says is shown as it is.
        table.add_row(*(Text(cell) for cell in cells))
    for worker in roster.unreadable:
        table.add_row(Text(worker), *("",) * 5, Text("its report is not one"))
    return table


def draw_history(rows: list["HistoryRow"]) -> "Table":
    """Lay out the decisions as a table; the columns for reasons and cuts are left out when there are none."""
    from rich.table import Table  # noqa: PLC0415 - keeps --help instant
    from rich.text import Text  # noqa: PLC0415

    columns = {
        "epoch": [str(row.epoch) for row in rows],
        "decided": [row.decided for row in rows],
        "by": [row.by for row in rows],
        "versions": [row.split for row in rows],
        "takes effect": [row.takes_effect for row in rows],
        "standing": [row.standing for row in rows],
        "reason": [row.reason for row in rows],
        "cuts": [row.cuts for row in rows],
    }
    shown = {heading: cells for heading, cells in columns.items() if any(cells)}
    table = Table(box=None, padding=(0, 2))
    for heading in shown:
        table.add_column(heading, header_style="dim", overflow="fold")
    for cells in zip(*shown.values(), strict=True):
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _describe_preparation(report: "WorkerReport", candidate: "Candidate | None") -> str:
    if candidate is None:
        return ""
    if report.refused is not None and report.refused.candidate == candidate.id:
        return f"refused: {report.refused.reason}"
    if report.ready == candidate.id:
        return "ready"
    return "preparing" if report.preparing == candidate.id else "has not answered"


def _describe_shadow(report: "WorkerReport") -> str:
    return "" if report.shadow is None else f"{report.shadow.version}: {report.shadow.state}"


def _print_table(table: "Table") -> None:
    from rich.console import Console  # noqa: PLC0415 - keeps --help instant

    Console(width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL).print(table)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
