"""What several commands need of the model store on this host: its local cache, and a key to sign with."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model_store.local_cache import LocalCache
    from model_store.signing_keys import SigningKey
    from schemas.settings import Settings


def open_cache(settings: "Settings") -> "LocalCache":
    """The local cache that the workers of this host use under these settings."""
    from model_store.local_cache import LocalCache  # noqa: PLC0415 - keeps --help instant
    from stream_workers.local_folders import model_cache_folder  # noqa: PLC0415

    return LocalCache(model_cache_folder(settings), settings.store.cache_bytes)


def read_key(path: Path | None) -> "SigningKey | None":
    """Read a private key file; None for none. Raises ConfigurationError."""
    if path is None:
        return None
    from model_store.signing_keys import SigningKey  # noqa: PLC0415 - keeps --help instant

    return SigningKey.read(path)
