"""`headrace models shadow` and `compare`: run a version on copies of requests, and see how it differs."""

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.model_access import open_shadows, verify_versions
from headrace.cli.options import ConfigFile
from headrace.cli.results_command import Format
from headrace.cli.switch_author import find_author
from schemas.configuration import load_settings
from schemas.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from model_store.shadow import Shadow
    from model_store.timeline import Timeline
    from producers.shadow_reader import ShadowReader
    from producers.shadow_tally import ShadowTally
    from schemas.settings import Settings

Name = Annotated[str, typer.Argument(help="The model's name.")]
_KAFKA_SECONDS = 5.0


def register(models: typer.Typer) -> None:
    """Add the commands."""
    models.command("shadow")(shadow)
    models.command("compare")(compare)


def shadow(
    name: Name,
    version: Annotated[str | None, typer.Argument(help="The version that is to run for nobody.")] = None,
    *,
    share: Annotated[float | None, typer.Option(help="Percent of the keys that are copied; default: 100.")] = None,
    stop: Annotated[bool, typer.Option("--stop", help="Run none any more: workers let it go.")] = False,
    reason: Annotated[str, typer.Option(help="Why, shown beside it: one line.")] = "",
    config: ConfigFile = None,
) -> None:
    """Have workers run a version on copies of answered requests. It answers nobody; `models compare` shows how it does.

    Every file is verified first, and the shadow topic has to be there. Saying it again with another share changes the
    share. Exits 1 when another version is shadowed, or somebody else was faster; with --stop when there was none.
    """
    settings = load_settings(config, os.environ)
    if stop:
        if version is not None or share is not None or reason:
            raise ConfigurationError("--stop takes no version, --share or --reason: it ends whatever is there")
        _stop(settings, name)
        return
    if version is None:
        raise ConfigurationError("VERSION is missing: name the version to shadow, or end the present one with --stop")
    from model_store.shadow import WHOLE, Shadow  # noqa: PLC0415 - keeps --help instant
    from producers.topics import TopicAdmin  # noqa: PLC0415

    wanted = Shadow(version, WHOLE if share is None else share, time.time_ns() // 1_000_000, find_author(reason))
    verify_versions(settings, name, {version: 1})
    with TopicAdmin(settings.kafka, start_timeout_seconds=_KAFKA_SECONDS) as admin:
        admin.require([settings.topics.shadow])
    with open_shadows(settings) as shadows:
        shadows.start(name, wanted)
    typer.echo(describe_shadow(name, wanted))
    typer.echo(f"`headrace models active {name}` tells which workers run it, `models compare {name}` how", err=True)


def _stop(settings: "Settings", name: str) -> None:
    with open_shadows(settings) as shadows:
        was_there = shadows.stop(name)
    if not was_there:
        typer.echo(f"{name}: no version is shadowed", err=True)
        raise typer.Exit(ExitCode.FAILED)
    typer.echo(f"{name} shadow stopped")


def describe_shadow(name: str, shadow: "Shadow") -> str:
    """Write a shadow in a line."""
    from model_store.version_history import describe_time  # noqa: PLC0415 - keeps --help instant

    since = f" since {describe_time(shadow.at_ms)}" if shadow.at_ms else ""
    by = f" by {shadow.author.by}" if shadow.author.by else ""
    reason = f": {shadow.author.reason}" if shadow.author.reason else ""
    return f"{name} {shadow.version} shadows {shadow.percent:g}% of the keys{since}{by}{reason}"


def read_shadow_lines(settings: "Settings", name: str, timeline: "Timeline") -> list[str]:
    """Return what to say of the shadow of a model: nothing when there is none."""
    from schemas.errors import InvalidPointerError  # noqa: PLC0415 - keeps --help instant

    with open_shadows(settings) as shadows:
        try:
            found = shadows.read(name)
        except InvalidPointerError as error:
            return [str(error)]
    if found is None:
        return []
    answers = timeline.latest is not None and found.version in timeline.latest.split
    return [describe_shadow(name, found) + (", which answers itself now: nothing is copied" if answers else "")]


def compare(  # noqa: PLR0913 - one argument per option of the command
    name: Name,
    *,
    version: Annotated[str | None, typer.Option("--shadow", help="Only comparisons with this version.")] = None,
    tolerance: Annotated[float, typer.Option(min=0, help="Numbers no further apart than this agree.")] = 0.0,
    worst: Annotated[int, typer.Option(min=0, max=100, help="So many of the most different requests.")] = 5,
    last: Annotated[str | None, typer.Option(help="Only the last 10m or 2h; default: all there is.")] = None,
    follow: Annotated[bool, typer.Option(help="Go on at the end, until Ctrl-C.")] = False,
    output: Annotated[Format, typer.Option("--format", help="A table for people, JSON lines for programs.")] = (
        Format.TABLE
    ),
    config: ConfigFile = None,
) -> None:
    """Show how a shadow version differs from what answered: agreement, differences, latencies, and where most.

    Reads the shadow topic. With --format jsonl: a line for each pair of versions. Exits 1 when there is nothing.
    """
    from headrace.cli.compare_view import show_comparison  # noqa: PLC0415 - keeps --help instant
    from producers.shadow_reader import ShadowReader, parse_span  # noqa: PLC0415
    from producers.shadow_tally import ShadowTally  # noqa: PLC0415

    settings = load_settings(config, os.environ)
    since_ms = 0 if last is None else time.time_ns() // 1_000_000 - parse_span(last)
    tally = ShadowTally(name, version, tolerance, worst)
    try:
        with (
            ShadowReader(settings.kafka, settings.topics.shadow, since_ms) as reader,
            show_comparison(live=follow and output is Format.TABLE) as show,
        ):
            _read(reader, tally, show, follow=follow)
    except KeyboardInterrupt:
        pass
    if output is Format.JSONL:
        for line in tally.lines():
            sys.stdout.write(line.decode() + "\n")
    elif tally.pairs:
        from headrace.cli.compare_view import print_comparison  # noqa: PLC0415 - keeps --help instant

        print_comparison(tally)
    if not tally.pairs:
        typer.echo(f"{name}: no comparison in {settings.topics.shadow}", err=True)
        raise typer.Exit(ExitCode.FAILED)


def _read(reader: "ShadowReader", tally: "ShadowTally", show: "Callable[[ShadowTally], None]", *, follow: bool) -> None:
    for record in reader.read(follow=follow):
        if record is None:
            show(tally)
        else:
            tally.add(record)
