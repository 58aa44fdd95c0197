"""What a store of model versions promises, whatever keeps its bytes. A folder and a remote store both implement it."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Protocol

from pydantic import ValidationError

from model_store.json_codec import decode_json
from model_store.plain_files import hash_file
from model_store.weight_file import check_open_weights
from schemas.errors import ChecksumMismatchError, InvalidRecordError, ManifestError
from schemas.manifest import WEIGHTS_FILE, FileEntry, ModelManifest

_MAX_DEPTH = 32


class StoredVersion(Protocol):
    """A version whose manifest is sound and, where that is required, signed. Its files have not been read."""

    @property
    def manifest(self) -> ModelManifest:
        """What the version is."""

    @property
    def manifest_bytes(self) -> bytes:
        """The manifest as it is stored, to the byte: what a signature is made of."""

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def version(self) -> str:
        """The version's name."""

    def open_file(self, entry: FileEntry) -> BinaryIO:
        """Open one of its files for reading, unverified.

        Raises VersionNotFoundError when it is gone, UnsafeFileError and UnavailableError.
        """


class VersionStore(Protocol):
    """Immutable versions by (model name, version name). Every name is checked before it becomes part of a path."""

    @property
    def location(self) -> str:
        """Where it is, for people to read."""

    def resolve(self, name: str, version: str) -> StoredVersion:
        """Find a version.

        Raises UnsafeNameError, VersionNotFoundError, SignatureError, ManifestError, UnsafeFileError, UnavailableError.
        """

    def verify(self, name: str, version: str) -> StoredVersion:
        """Resolve a version and read every byte of it. Raises as :meth:`resolve`, and ChecksumMismatchError."""

    def contains(self, name: str, version: str) -> bool:
        """Whether the name is taken, be the version sound or not. Raises UnsafeNameError and UnavailableError."""

    def list_versions(self, name: str | None = None) -> Sequence[tuple[str, str]]:
        """Return (name, version) of what looks like a version, sorted; whether it is sound, `resolve` says."""

    def incoming(self) -> AbstractContextManager[Path]:
        """A fresh local directory to write a version into; gone afterwards."""

    def commit(self, incoming: Path, manifest: ModelManifest) -> StoredVersion:
        """Make a written version visible, whole or not at all.

        Raises VersionExistsError when it is there already, be it from a publisher who was faster by a moment.
        """

    def attach_signature(self, name: str, version: str, signature: bytes) -> None:
        """Put a signature beside the manifest, in place of the one before. Raises as :meth:`resolve`."""

    def remove(self, name: str, version: str, is_unused: Callable[[], bool]) -> bool:
        """Make a version invisible, then remove it, unless `is_unused` denies at the last moment. True when removed.

        What `is_unused` raises comes as it is, and the version stays.
        """

    def remove_leftovers(self, now: float, older_than_seconds: float = ...) -> int:
        """Remove what killed processes left, when nothing in it changed for so long. `now` is epoch seconds."""


def parse_manifest(data: bytes, name: str, version: str) -> ModelManifest:
    """Read the manifest of one version that anybody may have written. Raises ManifestError."""
    try:
        manifest = ModelManifest.model_validate(decode_json(data, _MAX_DEPTH))
    except InvalidRecordError as error:
        raise ManifestError(f"the manifest of {name}/{version}: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "(whole)"
        raise ManifestError(f"the manifest of {name}/{version}: {where}: {first['msg']}") from None
    if (manifest.name, manifest.version) != (name, version):
        raise ManifestError(f"{name}/{version}: its manifest is that of {manifest.name}/{manifest.version}")
    if WEIGHTS_FILE not in {entry.name for entry in manifest.files}:
        raise ManifestError(f"{name}/{version}: the manifest lists no {WEIGHTS_FILE}")
    return manifest


def verify_files(stored: StoredVersion) -> None:
    """Read every file of a version: its SHA-256, and that the weights are sound safetensors.

    Raises ChecksumMismatchError and UnsafeFileError, and as :meth:`StoredVersion.open_file`.
    """
    for entry in stored.manifest.files:
        shown = f"{stored.name}/{stored.version}/{entry.name}"
        with stored.open_file(entry) as file:
            found = hash_file(file)
            if found != entry.sha256:
                raise ChecksumMismatchError(f"{shown}: SHA-256 is {found}, the manifest says {entry.sha256}")
            if entry.name == WEIGHTS_FILE:
                file.seek(0)
                check_open_weights(file, entry.size, shown)
