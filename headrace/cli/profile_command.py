"""`headrace profile`: measure a model on this machine and choose the settings that serve it best."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.options import ConfigFile
from headrace.cli.progress import show_progress
from schemas.configuration import load_settings
from schemas.errors import ConfigurationError
from schemas.names import check_name
from schemas.settings import Settings

if TYPE_CHECKING:
    from stream_workers.profiling.choice import Choice, Goal
    from stream_workers.profiling.service_curve import ServiceCurve
    from stream_workers.profiling.session import Effort, ProfileSession
    from stream_workers.profiling.setups import Setup


Data = Annotated[
    Path | None, typer.Option(help="Image folder, video or file of rows; the model's example if not given.")
]


@dataclass(frozen=True)
class _Outputs:
    settings_file: Path | None
    picture: Path | None
    base: dict[str, Any]
    """The configuration that the chosen settings are merged into."""
    several: bool
    """True when versions were compared: the choice names one."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("profile")(profile)


def profile(  # noqa: PLR0913 - one parameter per option
    model: Annotated[str, typer.Argument(help="MODEL or MODEL@VERSION.")],
    *,
    rate: Annotated[float, typer.Option(min=0.01, help="Records per second that arrive.")],
    p99_ms: Annotated[float, typer.Option(min=1, help="Target of the p99 latency, commit included.")],
    data: Data = None,
    versions: Annotated[str | None, typer.Option(help="Versions to compare, by commas: precisions, for one.")] = None,
    max_batch_size: Annotated[int, typer.Option(min=1, max=65_536, help="The largest size to measure.")] = 64,
    seconds: Annotated[float, typer.Option(min=0.05, max=600, help="Time per batch size.")] = 1.5,
    write: Annotated[Path | None, typer.Option(help="Write the settings file, merged with --config.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw throughput against latency as PNG.")] = None,
    confirm: Annotated[bool, typer.Option("--confirm", help="Measure again under the chosen settings.")] = False,
    config: ConfigFile = None,
) -> None:
    """Measure service times by batch size on real model processes, and choose instances, threads, batch size and wait.

    Exits 1 when no settings carry the rate within the target, or when --confirm finds the forecast off by over 15 %.
    """
    from stream_workers.profiling.choice import Goal  # noqa: PLC0415 - keeps --help instant
    from stream_workers.profiling.session import Effort, ProfileSession, find_samples, find_versions  # noqa: PLC0415
    from stream_workers.profiling.settings_file import read_base  # noqa: PLC0415

    if plot is not None:
        from headrace.profile_views.picture import check_can_draw  # noqa: PLC0415

        check_can_draw()
    settings, asked = _settle_model(load_settings(config, os.environ), model, versions)
    goal, effort = Goal(rate, p99_ms / 1000), Effort(max_batch_size, seconds, max(5.0, 4 * seconds))
    outputs = _Outputs(write, plot, read_base(config), several=len(asked) > 1)
    with show_progress() as tell:
        wanted = find_versions(settings, asked)
        session = ProfileSession(settings, find_samples(settings, wanted[0], data, os.environ), os.environ, tell)
        curves = session.measure(wanted, goal, effort)
    choice = _choose(settings, curves, goal, outputs)
    _check_carries(choice, goal)
    if write is not None:
        _write(choice, goal, curves[choice.candidate.setup], outputs)
    if confirm and not _confirm(session, choice, curves[choice.candidate.setup], effort):
        raise typer.Exit(ExitCode.FAILED)


def _settle_model(settings: Settings, model: str, versions: str | None) -> tuple[Settings, list[str]]:
    """Return the settings with the model's name in them, and the versions that were asked for."""
    name, separator, version = model.partition("@")
    asked = [one.strip() for one in versions.split(",")] if versions is not None else []
    if separator:
        if asked:
            raise ConfigurationError(f"{model}: the version is given twice, here and in --versions")
        asked = [version]
    for one in (name, *asked):
        check_name("model name or version", one)
    kept = settings.model.version if name == settings.model.name else None
    updated = settings.model.model_copy(update={"name": name, "version": kept})
    return settings.model_copy(update={"model": updated}), asked


def _choose(settings: Settings, curves: "Mapping[Setup, ServiceCurve]", goal: "Goal", outputs: _Outputs) -> "Choice":
    from rich.console import Console  # noqa: PLC0415 - keeps --help instant

    from headrace.profile_views.terminal import show_choice, show_measured  # noqa: PLC0415
    from stream_workers.profiling.choice import choose  # noqa: PLC0415
    from stream_workers.profiling.forecast import Load, find_knee, trace  # noqa: PLC0415

    console = Console()
    show_measured(console, curves)
    load = Load(settings.worker.commit_interval_ms / 1000)
    with show_progress() as tell:
        choice = choose(curves, goal, load, tell)
        points = trace(choice.candidate, curves[choice.candidate.setup], load)
    knee = find_knee(points)
    show_choice(console, choice, points, knee)
    if outputs.picture is not None:
        from headrace.profile_views.picture import draw  # noqa: PLC0415

        draw(outputs.picture, curves, points, knee, goal)
        typer.echo(f"drawn: {outputs.picture}")
    return choice


def _check_carries(choice: "Choice", goal: "Goal") -> None:
    """Leave with a failure when not even the best settings reach the goal."""
    if not choice.carries(goal):
        typer.echo(
            f"no settings carry {goal.rate:g}/s with a p99 of {goal.p99_seconds * 1000:g} ms:"
            f" the largest rate within it is {choice.largest_rate:.0f}/s",
            err=True,
        )
        raise typer.Exit(ExitCode.FAILED)


def _write(choice: "Choice", goal: "Goal", curve: "ServiceCurve", outputs: _Outputs) -> None:
    from stream_workers.profiling.settings_file import render, write_text  # noqa: PLC0415 - keeps --help instant

    if outputs.settings_file is not None:
        write_text(outputs.settings_file, render(choice, goal, curve, outputs.base, with_version=outputs.several))
        typer.echo(f"written: {outputs.settings_file}")


def _confirm(session: "ProfileSession", choice: "Choice", curve: "ServiceCurve", effort: "Effort") -> bool:
    from rich.console import Console  # noqa: PLC0415 - keeps --help instant

    from headrace.profile_views.terminal import show_comparison  # noqa: PLC0415

    with show_progress() as tell:
        tell("confirming under the chosen settings")
        comparisons = session.confirm(choice, curve, effort)
    show_comparison(Console(), comparisons)
    return all(one.holds for one in comparisons)
