"""Reading settings: one YAML file, then `HEADRACE_*` variables. Errors name place, key, value and what is allowed."""

import difflib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import SecretStr, ValidationError
from pydantic_settings import PydanticBaseSettingsSource

from schemas.configuration_faults import example_of, explain, find_variables, holds_json, show
from schemas.errors import ConfigurationError
from schemas.settings import CONFIG_VARIABLE, ENV_PREFIX, Settings
from schemas.store_settings import is_store_url

_MAX_CONFIG_BYTES = 1 << 20


class _UniqueKeyLoader(yaml.SafeLoader):
    """A safe loader that refuses a key given twice, where plain YAML would silently take the last."""


def _unique_mapping(loader: _UniqueKeyLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[Any] = set()
    for key_node, _ in node.value:
        key = loader.construct_object(key_node)
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is given twice", key_node.start_mark)
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)


def load_settings(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """Read the settings. `path` wins over `HEADRACE_CONFIG`; variables win over the file, key by key.

    `environ` must be `os.environ` or, in tests, a mapping patched into it. Raises ConfigurationError.
    """
    _refuse_unknown_variables(environ)
    if path is None and environ.get(CONFIG_VARIABLE):
        path = Path(environ[CONFIG_VARIABLE])
    values = _read_file(path) if path is not None else {}
    if path is not None and isinstance(values, dict):
        values = _anchor_paths(values, path.parent)

    _refuse_malformed_variables(environ)
    try:
        return _settings_from(with_environment=True)(**values)
    except ValidationError as error:
        raise ConfigurationError(explain(error, path, environ)) from None


def dump_settings(settings: Settings) -> bytes:
    """Write all settings, secrets included, for a child process over a private channel. Never for a file or a log."""
    return json.dumps(settings.model_dump(), default=_plain).encode()


def restore_settings(data: bytes) -> Settings:
    """Read what :func:`dump_settings` wrote: those values alone, neither a file nor the environment."""
    return _settings_from(with_environment=False)(**json.loads(data))


def _settings_from(*, with_environment: bool) -> type[Settings]:
    class Chosen(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[Any],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (env_settings, init_settings) if with_environment else (init_settings,)

    return Chosen


def _plain(value: object) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"configuration file {path}: {error.strerror}") from None
    if len(text) > _MAX_CONFIG_BYTES:
        raise ConfigurationError(f"configuration file {path}: larger than {_MAX_CONFIG_BYTES} bytes")
    try:
        values = yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - a subclass of SafeLoader
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"configuration file {path}: not valid YAML: {error}") from None
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise ConfigurationError(f"configuration file {path}: the top level must be a mapping of group names")
    for group, settings in values.items():
        # Checked here, since a variable of that group would silently take its place. The value may hold a secret.
        if group in Settings.model_fields and not isinstance(settings, dict | None):
            kind = type(settings).__name__
            raise ConfigurationError(f"configuration file {path}: {group}: a mapping of settings is needed, not {kind}")
    return {group: {} if settings is None else settings for group, settings in values.items()}


def _anchor_paths(values: dict[str, Any], base: Path) -> dict[str, Any]:
    """Resolve the store's relative folders against the file that names them, not against the current folder."""
    store = values.get("store")
    if not isinstance(store, dict):
        return values
    named = {key: store[key] for key in ("root", "cache_dir") if isinstance(store.get(key), str)}
    folders = {key: str(base / text) for key, text in named.items() if not is_store_url(text)}
    return {**values, "store": {**store, **folders}}


def _refuse_malformed_variables(environ: Mapping[str, str]) -> None:
    """Lists and mappings are JSON in a variable; what is not is refused here, with the name and without a secret."""
    variables = find_variables(Settings, ENV_PREFIX)
    for name, text in environ.items():
        keys = variables.get(name.upper())
        if keys is None or not holds_json(keys):
            continue
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            raise ConfigurationError(
                f"variable {name}: {'.'.join(keys)}: JSON is needed: {example_of(keys)} (got {show(keys, text)})"
            ) from None


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    known = {*find_variables(Settings, ENV_PREFIX), CONFIG_VARIABLE}
    for name in environ:
        upper = name.upper()
        if not upper.startswith(ENV_PREFIX) or upper in known or upper.startswith(f"{ENV_PREFIX}MODEL__CLASSES__"):
            continue
        near = difflib.get_close_matches(upper, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigurationError(f"environment variable {name} is not a setting{hint}")
