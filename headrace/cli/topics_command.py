"""`headrace topics`: create the topics of a pipeline, and look at them."""

import os
import sys
from typing import Annotated

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.options import ConfigFile
from schemas.configuration import load_settings

_MS_PER_HOUR = 3_600_000
_WIDTH_WITHOUT_TERMINAL = 160


def register(app: typer.Typer) -> None:
    """Add the commands."""
    topics = typer.Typer(no_args_is_help=True, help="Create and describe the topics of a pipeline.")
    topics.command("create")(create)
    topics.command("describe")(describe)
    app.add_typer(topics, name="topics")


def create(
    *,
    config: ConfigFile = None,
    partitions: Annotated[int, typer.Option(min=1, max=10_000, help="Partitions of each topic.")] = 4,
    replication: Annotated[int, typer.Option(min=1, max=100, help="Copies of each partition.")] = 1,
    retention_hours: Annotated[float | None, typer.Option(min=0.01, help="How long records are kept.")] = None,
) -> None:
    """Create request, result, dead-letter, control and shadow topics. Exits 1 when one has other properties."""
    from producers.topics import create_topics  # noqa: PLC0415 - keeps --help instant

    settings = load_settings(config, os.environ)
    reports = create_topics(
        settings.kafka,
        settings.topics,
        partitions=partitions,
        replication=replication,
        limits=settings.limits,
        retention_ms=None if retention_hours is None else int(retention_hours * _MS_PER_HOUR),
    )
    for report in reports:
        state = "created" if report.created else "exists"
        typer.echo(f"{report.name}: {state}" + "".join(f"; {difference}" for difference in report.differences))
    if any(report.differences for report in reports):
        raise typer.Exit(ExitCode.FAILED)


def describe(*, config: ConfigFile = None) -> None:
    """Show the topics, and the lag of the worker group. Exits 1 when a topic is missing that every worker needs."""
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from producers.topics import TopicAdmin  # noqa: PLC0415

    settings = load_settings(config, os.environ)
    topics = settings.topics
    names = (*topics.requests, topics.results, topics.dead_letters, topics.control, topics.shadow)
    with TopicAdmin(settings.kafka) as admin:
        found = admin.describe(names)
        present = [topic.name for topic in found if topic.exists]
        records = dict.fromkeys(present, 0)
        starts = admin.start_offsets(present)
        for (name, partition), end in admin.end_offsets(present).items():
            records[name] += end - starts[name, partition]
        requests = [name for name in settings.topics.requests if name in present]
        lag = dict.fromkeys(requests, 0)
        for entry in admin.lag(settings.worker.group, requests, start_from=settings.worker.start_from):
            lag[entry.topic] += entry.lag
    table = Table("topic", "partitions", "replication", "timestamp", "max.message.bytes", "offsets held", "lag")
    table.columns[0].overflow = "fold"  # never cut: the name is what the line is about
    for topic in found:
        if not topic.exists:
            table.add_row(topic.name, "missing")
            continue
        table.add_row(
            topic.name,
            str(topic.partitions),
            str(topic.replication),
            topic.timestamp_type,
            "" if topic.max_message_bytes is None else str(topic.max_message_bytes),
            str(records[topic.name]),
            str(lag.get(topic.name, "")),
        )
    Console(width=None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL).print(table)
    if not set(names) - {topics.shadow} <= set(present):
        raise typer.Exit(ExitCode.FAILED)
