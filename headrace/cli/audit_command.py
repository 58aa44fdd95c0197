"""`headrace audit`: proves that every request of these topics was answered exactly once and in order."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from schemas.configuration import load_settings
from schemas.settings import TopicSettings

if TYPE_CHECKING:
    from producers.audit.report import AuditReport
    from producers.audit_reader import KafkaAudit

EXIT_NOT_CLEAN = 1

Config = Annotated[Path | None, typer.Option(help="Settings file; by default $HEADRACE_CONFIG.")]
Sent = Annotated[Path | None, typer.Option(help="File of acknowledged requests; by default the request topics tell.")]
GroupName = Annotated[
    str | None, typer.Option("--group", help="Group that must have committed the end; by default the worker's.")
]
NoGroup = Annotated[bool, typer.Option("--no-group", help="Do not look at any group's offsets.")]
During = Annotated[float, typer.Option(min=0, help="Seconds for which a first reader follows the outcomes.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Since = Annotated[Path | None, typer.Option(help="Begin at the offsets in this file.")]
Save = Annotated[Path | None, typer.Option(help="Only write where all topics end now, for a later --since-offsets.")]


def register(app: typer.Typer) -> None:
    """Add `audit` to the command line."""
    app.command(name="audit")(audit)


def audit(  # noqa: PLR0913 - one argument per flag
    config: Config = None,
    sent: Sent = None,
    group: GroupName = None,
    no_group: NoGroup = False,
    during: During = 0.0,
    as_json: AsJson = False,
    since_offsets: Since = None,
    save_offsets: Save = None,
) -> None:
    """Check that nothing is missing, doubled, out of order or unknown. Exit 0 when clean, 1 when not.

    Stop publishing and let the workers catch up first: what is still under way counts as missing.
    """
    from producers.audit.audit import Audit, AuditOptions  # noqa: PLC0415 - keeps --help instant
    from producers.audit.sent_file import read_offsets_file  # noqa: PLC0415
    from producers.audit_reader import KafkaAudit  # noqa: PLC0415

    settings = load_settings(config, os.environ)
    options = AuditOptions(
        sent_file=sent,
        group=None if no_group else group or settings.worker.group,
        since={} if since_offsets is None else read_offsets_file(since_offsets),
        during_seconds=during,
    )
    with KafkaAudit(settings.kafka) as access:
        if save_offsets is not None:
            _save(access, settings.topics, save_offsets)
            return
        report = Audit(access, settings.topics, options).run()
    _show(report, as_json=as_json)
    if not report.clean:
        raise typer.Exit(EXIT_NOT_CLEAN)


def _save(access: "KafkaAudit", topics: TopicSettings, path: Path) -> None:
    from producers.audit.access import Edge  # noqa: PLC0415
    from producers.audit.sent_file import write_offsets_file  # noqa: PLC0415

    write_offsets_file(path, access.offsets((*topics.requests, topics.results, topics.dead_letters), Edge.END))


def _show(report: "AuditReport", *, as_json: bool) -> None:
    import msgspec  # noqa: PLC0415

    if as_json:
        sys.stdout.write(msgspec.json.encode(report.to_json()).decode() + "\n")
        return
    from rich.console import Console  # noqa: PLC0415

    from producers.audit.rendering import render_report  # noqa: PLC0415

    Console(width=None if sys.stdout.isatty() else 120).print(render_report(report), highlight=False)
