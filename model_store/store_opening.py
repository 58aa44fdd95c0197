"""From `store.root` to the store that it names."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from model_store.signatures import NO_SIGNATURE, SignaturePolicy
from model_store.store import ModelStore
from model_store.version_store import VersionStore
from schemas.settings import StoreSettings
from schemas.store_settings import is_store_url


def open_store(settings: StoreSettings) -> VersionStore:
    """The store of the settings, with their signature policy. Opens nothing until it is asked."""
    return open_location(settings.location, SignaturePolicy.of(settings))


def open_location(location: str, signatures: SignaturePolicy = NO_SIGNATURE) -> VersionStore:
    """The store at a folder or URL. `file:` names a folder like its path alone: the same layout, the same checks."""
    if not is_store_url(location):
        return ModelStore(Path(location), signatures)
    parts = urlsplit(location)
    if parts.scheme == "file":
        return ModelStore(Path(unquote(parts.path)), signatures)
    from model_store.remote_store import RemoteStore  # noqa: PLC0415 - a store in a folder needs none of it

    return RemoteStore(location, signatures)
