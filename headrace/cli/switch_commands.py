"""`headrace models activate` and `rollback`: switch the versions that answer, with the workers that serve them."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.exit_codes import ExitCode
from headrace.cli.interruption import ENDINGS, as_ctrl_c
from headrace.cli.model_access import open_control_plane, verify_versions
from headrace.cli.options import ConfigFile
from headrace.cli.switch_author import find_author, real_clock
from headrace.cli.switch_view import show_switch
from schemas.configuration import load_settings
from schemas.errors import ConfigurationError

if TYPE_CHECKING:
    from model_store.switch_contract import SwitchOutcome
    from model_store.switch_request import Instant
    from model_store.timeline import TimelineEntry

Name = Annotated[str, typer.Argument(help="The model's name.")]
Reason = Annotated[str, typer.Option(help="Why, kept in the history: one line.")]
ExpectedEpoch = Annotated[
    int | None, typer.Option(min=0, help="Refuse when the epoch is another; default: the present one.")
]


def register(models: typer.Typer) -> None:
    """Add the commands."""
    models.command("activate")(activate)
    models.command("rollback")(rollback)


def activate(  # noqa: PLR0913 - one argument per option of the command
    name: Name,
    versions: Annotated[list[str], typer.Argument(help="VERSION, or a split: VERSION=90 OTHER=10.")],
    *,
    at: Annotated[
        str | None,
        typer.Option(help="Exact instant, now+2s (the default) or 2030-01-31T12:00Z.", show_default=False),
    ] = None,
    now: Annotated[bool, typer.Option("--now", help="From now on: what is not yet in a batch meets it too.")] = False,
    quorum: Annotated[str, typer.Option(help="Workers that have to be ready: all, a number, or a share: 80%.")] = "all",
    prepare_timeout: Annotated[float, typer.Option(min=1, help="Seconds that workers may take to get ready.")] = 120.0,
    no_prepare: Annotated[bool, typer.Option("--no-prepare", help="Do not ask workers to load it first.")] = False,
    reason: Reason = "",
    expected_epoch: ExpectedEpoch = None,
    floor_epoch: Annotated[
        int, typer.Option(min=0, help="An epoch that workers already hold, after Redis lost its data.")
    ] = 0,
    replace: Annotated[bool, typer.Option("--replace", help="Overwrite a stored value that is not sound.")] = False,
    config: ConfigFile = None,
) -> None:
    """Make a version, or a split of versions, active: every worker loads and checks it, then all switch at once.

    Every file is verified first. Exits 1, with nothing changed, when a worker refuses, is not ready in time or is not
    armed in time, or when somebody else was faster. Without a worker it is active at once.
    """
    from model_store.model_switch import ModelSwitch  # noqa: PLC0415 - keeps --help instant
    from model_store.switch_request import SwitchRequest, parse_quorum, parse_split  # noqa: PLC0415

    request = SwitchRequest(
        parse_split(versions),
        _choose_instant(at, is_now=now),
        find_author(reason),
        parse_quorum(quorum),
        0.0 if no_prepare else prepare_timeout,
        expected_epoch,
        floor_epoch,
        replace,
    )
    settings = load_settings(config, os.environ)
    verify_versions(settings, name, request.split)
    with as_ctrl_c(*ENDINGS), open_control_plane(settings) as (live, workers), show_switch() as show:
        outcome = ModelSwitch(name, live, workers, real_clock(), show).activate(request)
    _tell(name, outcome)
    if replace and outcome.entry is not None and outcome.entry.epoch <= 1:
        typer.echo(
            "epochs begin anew: if a worker has served a higher one (its metric headrace_pointer_epoch), activate again"
            " with --floor-epoch, or its records and those to come cannot be told apart by their epoch",
            err=True,
        )


def rollback(
    name: Name,
    *,
    to: Annotated[str | None, typer.Option(help="A version that was active; default: what was before.")] = None,
    reason: Reason = "",
    expected_epoch: ExpectedEpoch = None,
    config: ConfigFile = None,
) -> None:
    """Go back to what answered before, at once: every record that is not yet in a batch meets it.

    Nothing is prepared: workers keep the version before warm. A switch that is still to come is ended by it.
    """
    from model_store.model_switch import ModelSwitch  # noqa: PLC0415 - keeps --help instant

    settings = load_settings(config, os.environ)
    with as_ctrl_c(*ENDINGS), open_control_plane(settings) as (live, workers), show_switch() as show:
        switch = ModelSwitch(name, live, workers, real_clock(), show)
        outcome = switch.roll_back(to, expected_epoch, find_author(reason))
    _tell(name, outcome)


def _tell(name: str, outcome: "SwitchOutcome") -> None:
    """Print the answer: the pointer on stdout when it moved, everything else on stderr."""
    from model_store.switch_contract import SwitchResult  # noqa: PLC0415 - keeps --help instant

    entry, result = outcome.entry, outcome.result
    if result is SwitchResult.REFUSED or entry is None:
        typer.echo(f"headrace: refused, nothing has changed: {outcome.reason}", err=True)
        raise typer.Exit(ExitCode.FAILED)
    if result is SwitchResult.CALLED_OFF:
        typer.echo(f"headrace: epoch {entry.epoch} is called off, the old split goes on: {outcome.reason}", err=True)
        raise typer.Exit(ExitCode.FAILED)
    typer.echo(_describe(name, entry))
    if result is SwitchResult.UNSTOPPED:
        typer.echo(f"headrace: epoch {entry.epoch} stays although not all are armed: {outcome.reason}", err=True)
        raise typer.Exit(ExitCode.FAILED)
    if result is SwitchResult.UNCONFIRMED:
        typer.echo(f"stored, and not yet confirmed: {outcome.reason}", err=True)
    elif outcome.workers:
        typer.echo(f"known to every live worker, {outcome.workers} of them", err=True)
    else:
        typer.echo(
            f"no worker of {name} reports, as one that waits for its first version: nobody was asked to load it",
            err=True,
        )


def _describe(name: str, entry: "TimelineEntry") -> str:
    from model_store.timeline import SwitchMode  # noqa: PLC0415 - keeps --help instant
    from model_store.version_history import describe_split, describe_time  # noqa: PLC0415

    when = f" from {describe_time(entry.effective_from_ms)}" if entry.mode is SwitchMode.EXACT else ""
    return f"{name} {describe_split(entry.split)} epoch {entry.epoch}{when}"


def _choose_instant(at: str | None, *, is_now: bool) -> "Instant | None":
    from model_store.switch_request import DEFAULT_INSTANT, parse_instant  # noqa: PLC0415 - keeps --help instant

    if at is not None and is_now:
        raise ConfigurationError("--at and --now contradict each other: give one")
    if is_now:
        return None
    return DEFAULT_INSTANT if at is None else parse_instant(at)
