"""`headrace models`: publish, inspect and check model versions; the commands that switch them are beside it."""

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from headrace.cli.canary_command import register as register_canary_command
from headrace.cli.history_commands import register as register_history_commands
from headrace.cli.model_access import check_registered, open_store
from headrace.cli.options import ConfigFile
from headrace.cli.shadow_commands import register as register_shadow_commands
from headrace.cli.store_access import open_cache, read_key
from headrace.cli.store_commands import register as register_store_commands
from headrace.cli.switch_commands import register as register_switch_commands
from schemas.configuration import load_settings
from schemas.errors import ConfigurationError

if TYPE_CHECKING:
    from model_store.version_store import StoredVersion
    from schemas.golden import GoldenSample

MAX_TEXT_BYTES = 4 << 20

Name = Annotated[str, typer.Argument(help="The model's name.")]
Version = Annotated[str, typer.Argument(help="The version's name.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    models = typer.Typer(no_args_is_help=True, help="Publish, inspect, check and activate model versions.")
    for name, command in (
        ("publish", publish),
        ("publish-demo", publish_demo),
        ("list", list_versions),
        ("show", show),
        ("check", check),
    ):
        models.command(name)(command)
    register_switch_commands(models)
    register_canary_command(models)
    register_shadow_commands(models)
    register_history_commands(models)
    register_store_commands(models)
    app.add_typer(models, name="models")


def publish(  # noqa: PLR0913 - one argument per option of the command
    name: Name,
    version: Version,
    *,
    weights: Annotated[Path, typer.Option(help="A safetensors file; anything else is refused by its content.")],
    model_class: Annotated[str, typer.Option("--class", help="A registered class name, as in model.classes.")],
    labels: Annotated[Path | None, typer.Option(help="A text file with one label a line, in output order.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="key=value for the class; repeatable. JSON or text.")] = None,
    golden: Annotated[
        Path | None, typer.Option(help="A JSON file with a sample and its answer: wrong answers keep it from serving.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="Sign it with this private key file.")] = None,
    config: ConfigFile = None,
) -> None:
    """Publish a version: written aside, then visible at once and for ever. Exits 2 when it is there already."""
    from model_store.publishing import VersionDraft, publish_file  # noqa: PLC0415 - keeps --help instant

    settings = load_settings(config, os.environ)
    check_registered(model_class, settings)
    draft = VersionDraft(
        name, version, model_class, _read_labels(labels), _read_options(option or []), golden=_read_golden(golden)
    )
    typer.echo(_describe(publish_file(open_store(settings), draft, weights, read_key(key))))


def publish_demo(*, config: ConfigFile = None) -> None:
    """Publish EfficientNet-Lite 0, 1 and 2 with their ImageNet weights, as versions of the model `imagenet`."""
    from model_store.shipped.demo_weights import publish_demo as publish_all  # noqa: PLC0415 - keeps --help instant

    for resolved, is_new in publish_all(open_store(load_settings(config, os.environ))):
        typer.echo(f"{_describe(resolved)}: {'published' if is_new else 'is there already'}")


def list_versions(
    name: Annotated[str | None, typer.Argument(help="Only this model.")] = None, *, config: ConfigFile = None
) -> None:
    """List the versions in the store, one NAME VERSION a line."""
    settings = load_settings(config, os.environ)
    store = open_store(settings)
    versions = store.list_versions(name)
    for pair in versions:
        typer.echo(" ".join(pair))
    if not versions:
        of_it = "" if name is None else f" of {name}"
        root = settings.store.root
        is_missing = isinstance(root, Path) and not root.is_dir()
        typer.echo(f"no version{of_it} in {store.location}{', which is not a folder' if is_missing else ''}", err=True)


def show(name: Name, version: Version, *, config: ConfigFile = None) -> None:
    """Print a version's manifest as JSON."""
    resolved = open_store(load_settings(config, os.environ)).resolve(name, version)
    typer.echo(resolved.manifest.model_dump_json(indent=2))


def check(name: Name, version: Version, *, config: ConfigFile = None) -> None:
    """Verify every byte of a version, load it, run its example alone and as a full batch, then its golden sample.

    Exits 2 or 1 when one of these fails.

    Loads the model into this process, which ends right after.
    """
    settings = load_settings(config, os.environ)
    resolved = open_store(settings).verify(name, version)
    typer.echo(f"{_describe(resolved)}: every file is the one its manifest names")
    from model_store.golden_check import check_golden  # noqa: PLC0415 - keeps --help instant
    from model_store.torch_loader import load_model  # noqa: PLC0415 - torch takes seconds

    model = settings.model
    started = time.monotonic()
    with open_cache(settings).fetch_weights(resolved) as weights:
        loaded = load_model(
            weights.path, resolved.manifest, model.classes, model.device, model.threads, model.non_finite_outputs
        )
        typer.echo(f"loaded in {time.monotonic() - started:.2f} s on {model.device}")
        ran = loaded.warm_up(settings.batching.max_batch_size)
        typer.echo(f"answered its example {ran} times" if ran else "has no example: nothing was run")
        if resolved.manifest.golden is not None:
            check_golden(loaded, resolved.manifest.golden, settings.limits)
            typer.echo("answered its golden sample as published")


def _describe(resolved: "StoredVersion") -> str:
    size = sum(entry.size for entry in resolved.manifest.files)
    return f"{resolved.name} {resolved.version} ({resolved.manifest.model_class}, {size / 1e6:.1f} MB)"


def _read_labels(path: Path | None) -> tuple[str, ...]:
    return () if path is None else tuple(_read_text("--labels", path).splitlines())


def _read_golden(path: Path | None) -> "GoldenSample | None":
    from schemas.golden import GoldenSample  # noqa: PLC0415 - keeps --help instant

    if path is None:
        return None
    try:
        return GoldenSample.model_validate_json(_read_text("--golden", path))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "(whole)"
        raise ConfigurationError(f"--golden {path}: {where}: {first['msg']}") from None


def _read_text(option: str, path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_TEXT_BYTES + 1)
        if len(data) > MAX_TEXT_BYTES:
            raise ConfigurationError(f"{option} {path}: larger than {MAX_TEXT_BYTES} bytes")
        return data.decode()
    except OSError as error:
        raise ConfigurationError(f"{option} {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{option} {path}: not UTF-8 text") from None


def _read_options(pairs: list[str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for pair in pairs:
        key, separator, text = pair.partition("=")
        if not separator or not key or key in options:
            raise ConfigurationError(f"--option {pair!r}: key=value is needed, each key once")
        try:
            options[key] = json.loads(text)
        except ValueError:
            options[key] = text
    return options
