"""`headrace dead-letters`: send refused requests back to where they came from."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.options import ConfigFile
from schemas.configuration import load_settings
from schemas.errors import one_line

if TYPE_CHECKING:
    from schemas.records import DeadLetter


def register(app: typer.Typer) -> None:
    """Add the command."""
    letters = typer.Typer(no_args_is_help=True, help="Work with refused requests.")
    letters.callback()(_group)
    letters.command("replay")(replay)
    app.add_typer(letters, name="dead-letters")


def _group() -> None:
    """Work with refused requests."""


def replay(
    *,
    config: ConfigFile = None,
    ids: Annotated[list[str] | None, typer.Option("--id", help="Only this request; may be repeated.")] = None,
    codes: Annotated[list[str] | None, typer.Option("--code", help="Only this error code; may be repeated.")] = None,
    topic: Annotated[str | None, typer.Option(help="Only requests that came from this topic.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
    dry_run: Annotated[bool, typer.Option(help="Only say what would be sent.")] = False,
) -> None:
    """Send dead letters back with key, value and headers as they came. Exits 1 when one could not be sent."""
    from producers.dead_letters import ReplayFilter, replay_dead_letters  # noqa: PLC0415 - keeps --help instant

    def show(letter: "DeadLetter", obstacle: str | None) -> None:
        verdict = f"skipped: {obstacle}" if obstacle else "would be sent" if dry_run else "sent"
        typer.echo(f"{one_line(letter.request_id)} ({letter.error.code}) to {letter.source.topic}: {verdict}")

    wanted = ReplayFilter(ids=frozenset(ids or ()), codes=frozenset(codes or ()), source_topic=topic)
    settings = load_settings(config, os.environ)
    report = replay_dead_letters(settings, wanted, limit=limit, dry_run=dry_run, on_letter=show)
    typer.echo(f"{report.matched} matched, {report.sent} sent, {len(report.skipped)} skipped")
    if report.skipped:
        raise typer.Exit(ExitCode.FAILED)
