"""Settings of the model store: where versions lie, and who may have made them. Part of :mod:`schemas.settings`."""

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from schemas.manifest import Name
from schemas.settings_group import MIB, SettingsGroup

_SCHEME = re.compile(r"[a-z][a-z0-9+-]+:")
_URL = re.compile(r"[a-z][a-z0-9+-]+:[^:\s]\S*\Z")

PublicKey = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9+/]{43}=$")]
"""The 32 bytes of an Ed25519 public key as base64."""


def is_store_url(text: str) -> bool:
    """Whether `store.root` is a URL: `name:` and more. A folder whose name looks like that is written `./name:`."""
    return bool(_URL.match(text))


def _read_root(value: object) -> object:
    """Text that looks like a URL must be a sound one: taken for a folder, it would name one that nobody meant."""
    if not isinstance(value, str):
        return value
    return _check_url(value) if _SCHEME.match(value) else Path(value)


def _check_url(text: str) -> str:
    if not is_store_url(text):
        raise ValueError("a folder, or a URL like s3://bucket/models")
    if "::" in text:
        raise ValueError("URLs in a chain (::) are not followed")
    parts = urlsplit(text)
    if parts.password is not None:
        raise ValueError("no password in a URL, which is shown in messages: give it to the backend in its own way")
    if parts.scheme == "file" and not (parts.path.startswith("/") and parts.netloc in ("", "localhost")):
        raise ValueError("file:///absolute/path is needed")
    return text


StoreRoot = Annotated[Path | str, BeforeValidator(_read_root)]
"""A folder, or as text the URL of a remote store."""


class StoreSettings(SettingsGroup):
    """Where model versions are kept and cached, and whose versions are accepted."""

    root: StoreRoot = Path("models")
    """The store: a folder, relative to the configuration file that names it, or a URL such as s3://bucket/models."""
    cache_dir: Path | None = None
    """Local cache of verified files, relative like root; the user's cache folder when not given."""
    cache_bytes: int = Field(10 << 30, ge=MIB)
    """Bound of the local cache; what was used longest ago goes first."""
    require_signature: bool = False
    """Refuse every version whose manifest is not signed by one of trusted_keys."""
    trusted_keys: dict[Name, PublicKey] = Field(default_factory=dict)
    """Key id to Ed25519 public key in base64, as `headrace models keys create` prints it."""

    @property
    def location(self) -> str:
        """The root as one text that means the same in every process: an absolute path, or the URL."""
        return str(self.root.absolute()) if isinstance(self.root, Path) else self.root

    @model_validator(mode="after")
    def _someone_is_trusted(self) -> "StoreSettings":
        if self.require_signature and not self.trusted_keys:
            raise ValueError("require_signature is set and trusted_keys is empty: every version would be refused")
        return self
