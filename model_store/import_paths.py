"""From `package.module:name` in the settings to what it names. Nothing that is stored is ever imported this way."""

import importlib
from typing import Any

from schemas.errors import ConfigurationError


def import_named(path: str, setting: str) -> Any:
    """Import what `setting` names. Raises ConfigurationError, with the setting, when it cannot be had."""
    module_name, _, name = path.partition(":")
    try:
        return getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"{setting}: {path} cannot be imported: {error}") from error
