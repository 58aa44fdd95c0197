"""The folders of a worker on its host, when the settings name none."""

import os
from pathlib import Path

from schemas.settings import Settings


def state_folder(settings: Settings) -> Path:
    """Where slot leases and the last known version of a group are kept."""
    root = settings.worker.state_dir or _user_folder("XDG_STATE_HOME", ".local/state") / "headrace"
    return root / settings.worker.group


def model_cache_folder(settings: Settings) -> Path:
    """Where verified weights are kept."""
    return settings.store.cache_dir or _user_folder("XDG_CACHE_HOME", ".cache") / "headrace" / "models"


def _user_folder(variable: str, default: str) -> Path:
    given = os.environ.get(variable, "")
    return Path(given) if given.startswith("/") else Path.home() / default
