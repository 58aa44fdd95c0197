"""`headrace models keys|sign|warm|collect-garbage`: what keeps a store trusted, near and small."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.model_access import open_control_plane, open_shadows
from headrace.cli.options import ConfigFile
from headrace.cli.store_access import open_cache, read_key
from schemas.configuration import load_settings

if TYPE_CHECKING:
    from model_store.garbage import Plan, VersionsInUse
    from schemas.settings import Settings

Name = Annotated[str, typer.Argument(help="The model's name.")]
Version = Annotated[str, typer.Argument(help="The version's name.")]


def register(models: typer.Typer) -> None:
    """Add the commands to `headrace models`."""
    models.command("sign")(sign)
    models.command("warm")(warm)
    models.command("collect-garbage")(collect_garbage)
    keys = typer.Typer(no_args_is_help=True, help="Keys that sign versions.")
    keys.callback()(_keys)
    keys.command("create")(create_key)
    models.add_typer(keys, name="keys")


def _keys() -> None:
    """Keys that sign versions."""


def create_key(
    name: Annotated[str, typer.Argument(help="The key's id, which signatures carry.")],
    *,
    out: Annotated[Path | None, typer.Option(help="The private key file; NAME.key here if not given.")] = None,
) -> None:
    """Make an Ed25519 key: the private half into a file of mode 0600, the public half as a line for the settings."""
    from model_store.signing_keys import SigningKey  # noqa: PLC0415 - keeps --help instant

    key = SigningKey.create(name)
    path = out or Path(f"{name}.key")
    key.write(path)
    typer.echo(f"private key in {path}: whoever has it can sign versions", err=True)
    typer.echo(f'store: {{require_signature: true, trusted_keys: {{"{key.id}": "{key.public_key}"}}}}')


def sign(
    name: Name,
    version: Version,
    *,
    key: Annotated[Path, typer.Option(help="The private key file.")],
    config: ConfigFile = None,
) -> None:
    """Verify every byte of a version, then sign its manifest. An earlier signature is replaced."""
    from model_store.store_opening import open_location  # noqa: PLC0415 - keeps --help instant

    signer = read_key(key)
    # Opened without a policy: what is to be signed is not signed yet, or by a key that goes.
    store = open_location(load_settings(config, os.environ).store.location)
    stored = store.verify(name, version)
    if signer is not None:
        store.attach_signature(name, version, signer.sign(stored.manifest_bytes))
        typer.echo(f"{name} {version}: signed with key {signer.id}")


def warm(
    name: Name,
    versions: Annotated[list[str], typer.Argument(help="The versions to fetch.")],
    *,
    config: ConfigFile = None,
) -> None:
    """Bring versions into this host's cache, verified, so that loading them later reads local disk alone."""
    from model_store.store_opening import open_store  # noqa: PLC0415 - keeps --help instant

    settings = load_settings(config, os.environ)
    store, cache = open_store(settings.store), open_cache(settings)
    for version in versions:
        stored = store.resolve(name, version)
        size = sum(entry.size for entry in stored.manifest.files)
        began = time.monotonic()
        with _show_bytes(f"{name} {version}", size) as progress, cache.fetch_weights(stored, progress) as cached:
            state = "was warm" if cached.was_there else "fetched"
        typer.echo(f"{name} {version}: {state}, {size / 1e6:.1f} MB in {time.monotonic() - began:.2f} s")


def collect_garbage(
    name: Name,
    *,
    keep: Annotated[int, typer.Option(min=0, help="How many of those that nobody names are kept, newest first.")] = 3,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")] = False,
    config: ConfigFile = None,
) -> None:
    """Remove old versions that nothing names: no timeline entry, no preparation, no live worker, no fixed setting.

    Refuses to run (exit code 3) when Redis is configured and cannot be read.
    """
    from model_store.garbage import collect, plan_for  # noqa: PLC0415 - keeps --help instant
    from model_store.store_opening import open_location  # noqa: PLC0415

    settings = load_settings(config, os.environ)
    store = open_location(settings.store.location)  # without a policy: what nobody signed may go as well
    with _versions_in_use(settings) as find_in_use:
        plan = plan_for(store, name, find_in_use(name), keep)
        _show_plan(name, plan, "would be removed" if dry_run else "to be removed")
        if dry_run:
            return
        removed = collect(store, name, plan.removed, find_in_use, lambda text: typer.echo(text, err=True))
    leftovers = store.remove_leftovers(time.time())
    typer.echo(f"removed {len(removed)} versions of {name}, and {leftovers} leftovers of killed processes")


def _show_plan(name: str, plan: "Plan", going: str) -> None:
    for versions, why in (
        (plan.in_use, "in use"),
        (plan.recent, "among the newest"),
        (plan.unreadable, "cannot be read, left alone"),
        (plan.removed, going),
    ):
        for version in versions:
            typer.echo(f"{name} {version}: {why}")


@contextmanager
def _versions_in_use(settings: "Settings") -> Iterator["VersionsInUse"]:
    from model_store.garbage import names_in_use  # noqa: PLC0415 - keeps --help instant

    def find_fixed(model: str) -> set[str]:
        fixed = settings.model.version
        return {fixed} if fixed is not None and model == settings.model.name else set()

    if not settings.redis.url.get_secret_value():
        typer.echo("redis.url is not set: only the settings say which versions are in use", err=True)
        yield find_fixed
        return
    with open_control_plane(settings) as (versions, workers), open_shadows(settings) as shadows:

        def find(model: str) -> set[str]:
            roster, shadow = workers.read_workers(model), shadows.read(model)
            return find_fixed(model) | names_in_use(versions.read(model), workers.read_candidate(model), roster, shadow)

        yield find


@contextmanager
def _show_bytes(what: str, size: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal's stderr, nothing elsewhere."""
    from rich.console import Console  # noqa: PLC0415 - keeps --help instant
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn  # noqa: PLC0415

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(what, total=size)
        yield lambda count: progress.advance(task, count)
