"""`headrace publish`: video, images, rows or text as requests."""

import enum
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.options import ConfigFile, PayloadColumn
from schemas.configuration import load_settings
from schemas.errors import ConfigurationError
from schemas.settings import Settings

if TYPE_CHECKING:
    from rich.table import Table

    from producers.kafka_publisher import Publisher
    from producers.request_attributes import Attributes
    from producers.sources.item import Item, Source
    from producers.sources.streams import StreamReport


class Kind(enum.StrEnum):
    """What is published."""

    VIDEO = "video"
    """Frames of files or rtsp:// addresses, as JPEG; the key is the stream's name, so frames keep their order."""
    IMAGES = "images"
    """The JPEG and PNG files of folders, as they are."""
    ROWS = "rows"
    """Rows of .jsonl, .ndjson, .txt, .npy or .parquet files."""
    TEXT = "text"
    """The arguments themselves; - reads lines from standard input."""


@dataclass(frozen=True)
class _Choice:
    kind: Kind
    sources: list[str]
    limit_bytes: int
    quality: int
    id_column: str | None
    column: str | None


@dataclass(frozen=True)
class _Pace:
    fps: float | None
    """Items per second and stream; None: as fast as possible."""
    limit: int | None
    """Items per stream."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("publish")(publish)


def publish(  # noqa: PLR0913 - one parameter per option
    kind: Annotated[Kind, typer.Argument(help="What is published.")],
    sources: Annotated[list[str], typer.Argument(help="Files, folders, rtsp:// addresses or texts.")],
    *,
    config: ConfigFile = None,
    topic: Annotated[str | None, typer.Option(help="Request topic; the first of the settings if not given.")] = None,
    streams: Annotated[int, typer.Option(min=1, max=256, help="Publish each source as so many streams.")] = 1,
    fps: Annotated[
        float | None, typer.Option(min=0.001, help="Items per second and stream; as fast as possible if not given.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Items per stream.")] = None,
    key: Annotated[str | None, typer.Option(help="Key of every request, instead of the stream's name.")] = None,
    deadline_ms: Annotated[
        int | None, typer.Option(min=1, help="Milliseconds after which an answer is worthless.")
    ] = None,
    quality: Annotated[int, typer.Option(min=1, max=95, help="JPEG quality of video frames.")] = 85,
    id_column: Annotated[str | None, typer.Option(help="Field that labels a row.")] = None,
    column: PayloadColumn = None,
) -> None:
    """Publish requests and report what was written. Exits 1 when anything failed."""
    settings = load_settings(config, os.environ)
    opened = _open_sources(_Choice(kind, sources, settings.limits.payload_bytes, quality, id_column, column), streams)
    keyed = kind is Kind.VIDEO or len(opened) > 1
    deadline = None if deadline_ms is None else deadline_ms / 1000

    def attribute(stream: str, item: "Item") -> "Attributes":
        return {
            "key": key or (stream if keyed else None),
            "sequence": item.sequence,
            "deadline_seconds": deadline,
        }

    _publish(settings, topic or settings.topics.requests[0], opened, attribute, _Pace(fps, limit))


def _publish(
    settings: Settings,
    topic: str,
    opened: "Mapping[str, Callable[[], Source]]",
    attribute: "Callable[[str, Item], Attributes]",
    pace: _Pace,
) -> None:
    """Send every item of every stream, print what was written, and leave with the exit code that it deserves."""
    from producers.kafka_publisher import Publisher, PublisherOptions  # noqa: PLC0415 - keeps --help instant
    from producers.record_size import SizeLimits  # noqa: PLC0415
    from producers.sources.streams import StreamRunner  # noqa: PLC0415

    interrupted = False
    with Publisher(settings.kafka, topic, options=PublisherOptions(limits=SizeLimits.of(settings.limits))) as publisher:

        def send(stream: str, item: "Item") -> None:
            publisher.publish(item.payload, content_type=item.content_type, **attribute(stream, item))

        runner = StreamRunner(opened, send, fps=pace.fps, limit=pace.limit)
        try:
            _run_live(runner.run, runner.reports, publisher)
        except KeyboardInterrupt:
            interrupted = True
        publisher.flush()
    failed = _summarise(runner.reports, publisher)
    if interrupted:
        raise typer.Exit(ExitCode.INTERRUPTED)
    if failed:
        raise typer.Exit(ExitCode.FAILED)


def _open_sources(choice: _Choice, streams: int) -> Mapping[str, "Callable[[], Source]"]:
    from producers.sources.streams import name_streams  # noqa: PLC0415

    if choice.kind is Kind.TEXT:
        return {name: lambda: _read_texts(choice.sources) for name in name_streams("text", streams)}
    opened: dict[str, Callable[[], Source]] = {}
    for source in choice.sources:
        opener = _opener(choice, source)
        name = Path(source).stem or source
        while name_streams(name, streams)[0] in opened:
            name += "+"
        opened |= dict.fromkeys(name_streams(name, streams), opener)
    return opened


def _opener(choice: _Choice, source: str) -> "Callable[[], Source]":
    from producers.sources.images import list_images, read_images  # noqa: PLC0415
    from producers.sources.rows import RowOptions, read_rows  # noqa: PLC0415
    from producers.sources.video import VideoOptions, read_video  # noqa: PLC0415

    path = Path(source)
    if choice.kind is Kind.VIDEO:
        return lambda: read_video(source, VideoOptions(quality=choice.quality))
    if choice.kind is Kind.IMAGES:
        list_images(path)
        return lambda: read_images(path, limit_bytes=choice.limit_bytes)
    if not path.is_file():
        raise ConfigurationError(f"{path} is not a file")
    return lambda: read_rows(path, RowOptions(choice.limit_bytes, choice.id_column, choice.column))


def _read_texts(texts: list[str]) -> "Source":
    from producers.sources.item import Item  # noqa: PLC0415
    from schemas.records import TEXT  # noqa: PLC0415

    lines = (line for text in texts for line in (typer.get_text_stream("stdin") if text == "-" else [text]))
    for sequence, line in enumerate(lines):
        yield Item(sequence, line.rstrip("\n").encode(), TEXT, str(sequence))


def _run_live(run: Callable[..., object], reports: "list[StreamReport]", publisher: "Publisher") -> None:
    from rich.console import Console  # noqa: PLC0415
    from rich.live import Live  # noqa: PLC0415

    console = Console(stderr=True)
    if not console.is_terminal:
        run()
        return
    with Live(_table(reports, publisher), console=console, transient=True) as live:
        run(lambda: live.update(_table(reports, publisher)))


def _table(reports: "list[StreamReport]", publisher: "Publisher") -> "Table":
    from rich.table import Table  # noqa: PLC0415

    counts = publisher.counts
    table = Table(
        "stream", "sent", "faulty", "state", title=f"{counts.acked} acknowledged, {counts.in_flight} in flight"
    )
    for report in reports:
        state = f"broken: {report.broken}" if report.broken else "ended" if report.ended else "running"
        table.add_row(report.stream_id, str(report.sent), str(report.faulty), state)
    return table


def _summarise(reports: "list[StreamReport]", publisher: "Publisher") -> bool:
    """Print what happened and tell whether anything failed."""
    counts = publisher.counts
    for report in reports:
        if report.broken:
            typer.echo(f"stream {report.stream_id} broke after {report.sent} items: {report.broken}", err=True)
        elif report.faulty:
            typer.echo(
                f"stream {report.stream_id}: {report.faulty} faulty items, the last: {report.last_fault}", err=True
            )
    faulty = sum(report.faulty for report in reports)
    broken = sum(bool(report.broken) for report in reports)
    typer.echo(
        f"{publisher.topic}: {counts.acked} written, {counts.failed} failed, {faulty} faulty,"
        f" {len(reports)} streams, {broken} broken"
    )
    return bool(counts.failed or faulty or broken)
