"""Which version is meant when a command names none."""

from model_store.version_store import VersionStore
from schemas.errors import ConfigurationError


def choose_only_version(store: VersionStore, name: str) -> str:
    """Return the one version that a model has. Raises ConfigurationError, listing them, when it has none or several."""
    versions = [version for _, version in store.list_versions(name)]
    if len(versions) != 1:
        there = ", ".join(versions) or "none"
        raise ConfigurationError(f"which version of {name}? MODEL@VERSION says it; in {store.location}: {there}")
    return versions[0]
