"""`headrace worker`: serve a model, or only check that it could be served."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.options import ConfigFile
from schemas.configuration import load_settings
from schemas.errors import ConfigurationError
from schemas.settings import Settings

if TYPE_CHECKING:
    from stream_workers.batching.work import ServedVersion


def register(app: typer.Typer) -> None:
    """Add the command."""
    worker = typer.Typer(help="Serve a model: consume requests, answer each once.")
    worker.callback(invoke_without_command=True)(run)
    worker.command("check")(check)
    app.add_typer(worker, name="worker")


def run(
    context: typer.Context,
    config: ConfigFile = None,
    members: Annotated[int | None, typer.Option(min=1, max=64, help="Group members; else as in the settings.")] = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C, which finish what is in flight; a second one ends at once.

    Exits 0 when drained, 2 when the settings or the model cannot work, 4 when Kafka or Redis were not there in time,
    1 when processes end again and again.
    """
    if context.invoked_subcommand is not None:
        return
    from stream_workers.logs import set_up_logs  # noqa: PLC0415 - keeps --help instant
    from stream_workers.supervision.supervisor import supervise  # noqa: PLC0415

    settings = load_settings(config, os.environ)
    if members is not None:
        settings = settings.model_copy(update={"worker": settings.worker.model_copy(update={"members": members})})
    set_up_logs(settings.log)
    raise typer.Exit(supervise(settings, os.environ))


def check(config: ConfigFile = None) -> None:
    """Load the model as a worker would and reach Kafka, Redis and every topic; then exit.

    Exits 0 when all is well, 2 when the settings or the model cannot work, 3 when an outside system does not answer.
    """
    from stream_workers.logs import set_up_logs  # noqa: PLC0415 - keeps --help instant
    from stream_workers.start_up import check_outside  # noqa: PLC0415
    from stream_workers.supervision.model_check import check_model  # noqa: PLC0415

    settings = load_settings(config, os.environ)
    set_up_logs(settings.log)
    typer.echo("OK settings")
    check_outside(settings)
    topics = [*settings.topics.requests, settings.topics.results, settings.topics.dead_letters]
    if settings.model.version is None:
        topics.append(settings.topics.control)
    typer.echo(f"OK kafka {settings.kafka.bootstrap}, topics {', '.join(topics)}")
    version = _find_version(settings)
    loaded = check_model(settings, version, os.environ)
    typer.echo(f"OK model {version.model} {version.version}, loaded in {loaded.load_seconds:.1f} s")


def _find_version(settings: Settings) -> "ServedVersion":
    """Return the version that a worker would begin with. Raises UnavailableError or ConfigurationError."""
    from stream_workers.batching.work import ServedVersion  # noqa: PLC0415 - keeps --help instant

    name, pinned = settings.model.name, settings.model.version
    if not settings.redis.url.get_secret_value():
        if pinned is None:
            raise ConfigurationError("neither model.version nor redis.url is set: nothing says which version to serve")
        return ServedVersion(name, pinned, 0)
    active = _find_active(settings)
    if pinned is not None:
        typer.echo(f"OK redis, not asked for a version: model.version is {pinned}")
        return ServedVersion(name, pinned, 0)
    if active is None:
        raise ConfigurationError(
            f"no version of {name} is active: `headrace models activate {name} VERSION` makes one so"
        )
    typer.echo(f"OK redis, active version {active.version} at epoch {active.epoch}")
    return active


def _find_active(settings: Settings) -> "ServedVersion | None":
    """Ask Redis for the version that the pointer names; None when it names none. Raises UnavailableError."""
    from model_store.live_versions import LiveVersions  # noqa: PLC0415 - keeps --help instant
    from stream_workers.batching.work import ServedVersion  # noqa: PLC0415

    timeline = LiveVersions(settings.redis).read(settings.model.name)
    entry = None if timeline is None else timeline.latest
    return None if entry is None else ServedVersion(settings.model.name, entry.heaviest, entry.epoch)
