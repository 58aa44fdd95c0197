"""`headrace results --audit`: which version answered, and whether each switch was cut where it should be."""

import sys
from typing import TYPE_CHECKING

import typer

from headrace.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from producers.audit.version_audit import KnownDecisions
    from schemas.settings import Settings


def audit_versions(settings: "Settings", *, as_json: bool, from_topic_alone: bool) -> None:
    """Audit the versions of the model in these settings and print the report. Exits 1 when it is not clean."""
    from headrace.cli.decided_versions import look_up_decisions  # noqa: PLC0415 - keeps --help instant
    from producers.audit.version_audit import VersionAudit  # noqa: PLC0415
    from producers.audit_reader import KafkaAudit  # noqa: PLC0415

    model = settings.model.name
    alone = from_topic_alone or not settings.redis.url.get_secret_value()
    with KafkaAudit(settings.kafka) as access:

        def look_up() -> "KnownDecisions":
            return look_up_decisions(settings, model, from_topic_alone=alone)

        report = VersionAudit(access, settings.topics, model, look_up).run()
    if as_json:
        import msgspec  # noqa: PLC0415

        sys.stdout.write(msgspec.json.encode(report.to_json()).decode() + "\n")
    else:
        from rich.console import Console  # noqa: PLC0415

        from producers.audit.version_rendering import render_version_report  # noqa: PLC0415

        Console(width=None if sys.stdout.isatty() else 160).print(render_version_report(report), highlight=False)
    if not report.clean:
        raise typer.Exit(ExitCode.FAILED)
