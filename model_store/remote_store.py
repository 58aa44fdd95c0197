"""Model versions in an object store, or wherever fsspec reaches: MODEL/VERSION/ with files named by their SHA-256.

A version is visible once its manifest is there, which is written last and once. Files are named by content, so whoever
loses a race to publish the same version has overwritten nothing (record 0021).
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from model_store.plain_files import read_plain
from model_store.remote_files import RemoteFiles
from model_store.signatures import MAX_SIGNATURE_BYTES, NO_SIGNATURE, SignaturePolicy
from model_store.store import LEFTOVER_SECONDS
from model_store.version_store import parse_manifest, verify_files
from schemas.errors import ModelStoreError, VersionExistsError, VersionNotFoundError
from schemas.manifest import MANIFEST_FILE, MAX_MANIFEST_BYTES, SIGNATURE_FILE, FileEntry, ModelManifest
from schemas.names import check_name


@dataclass(frozen=True)
class RemoteVersion:
    """A version whose manifest was read from a remote store. Its files have not been looked at."""

    files: RemoteFiles = field(compare=False, repr=False)
    manifest: ModelManifest
    manifest_bytes: bytes = field(repr=False)

    @property
    def name(self) -> str:
        """The model's name."""
        return self.manifest.name

    @property
    def version(self) -> str:
        """The version's name."""
        return self.manifest.version

    def open_file(self, entry: FileEntry) -> BinaryIO:
        """Open one of its files for reading. Raises VersionNotFoundError or UnavailableError."""
        return self.files.open(f"{self.name}/{self.version}/{entry.sha256}")


class RemoteStore:
    """The versions below one URL. Opens nothing until it is asked."""

    def __init__(self, url: str, signatures: SignaturePolicy = NO_SIGNATURE) -> None:
        self._files = RemoteFiles(url.rstrip("/"))
        self._signatures = signatures

    @property
    def location(self) -> str:
        """The URL."""
        return self._files.url

    def resolve(self, name: str, version: str) -> RemoteVersion:
        """Find a version, and who signed it where that is required.

        Raises UnsafeNameError, VersionNotFoundError, SignatureError, ManifestError, UnsafeFileError, UnavailableError.
        """
        return self._resolve(name, version, self._signatures)

    def verify(self, name: str, version: str) -> RemoteVersion:
        """Resolve a version and read every byte of it. Raises as :meth:`resolve`, and ChecksumMismatchError."""
        found = self.resolve(name, version)
        verify_files(found)
        return found

    def contains(self, name: str, version: str) -> bool:
        """Whether the version is visible. Raises UnsafeNameError and UnavailableError."""
        return self._files.exists(f"{_key(name, version)}/{MANIFEST_FILE}")

    def list_versions(self, name: str | None = None) -> list[tuple[str, str]]:
        """Return (name, version) of what has a manifest, sorted; whether it is sound, `resolve` says."""
        return [pair for pair in self._folders(name) if self.contains(*pair)]

    @contextmanager
    def incoming(self) -> Iterator[Path]:
        """A fresh local directory to write a version into; gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="headrace-publish-") as folder:
            yield Path(folder)

    def commit(self, incoming: Path, manifest: ModelManifest) -> RemoteVersion:
        """Upload the files, then the signature if there is one, then the manifest, which makes the version visible.

        Raises VersionExistsError when it is there already, be it from a publisher who was faster by a moment.
        """
        key = _key(manifest.name, manifest.version)
        data = read_plain(incoming / MANIFEST_FILE, MAX_MANIFEST_BYTES)
        for entry in manifest.files:
            self._files.upload(incoming / entry.name, f"{key}/{entry.sha256}")
        if (incoming / SIGNATURE_FILE).exists():
            self._files.write(_signature_key(key, data), read_plain(incoming / SIGNATURE_FILE, MAX_SIGNATURE_BYTES))
        try:
            self._files.write_once(f"{key}/{MANIFEST_FILE}", data)
        except VersionExistsError:
            raise VersionExistsError(
                f"{manifest.name}/{manifest.version} is there already: versions never change"
            ) from None
        return RemoteVersion(self._files, manifest, data)

    def attach_signature(self, name: str, version: str, signature: bytes) -> None:
        """Put a signature beside the manifest, in place of the one before. Raises as :meth:`resolve`."""
        found = self._resolve(name, version, NO_SIGNATURE)
        self._files.write(_signature_key(_key(name, version), found.manifest_bytes), signature)

    def remove(self, name: str, version: str, is_unused: Callable[[], bool]) -> bool:
        """Ask `is_unused` at the last moment, then remove the manifest, and then what it named. True when removed.

        Raises VersionNotFoundError and UnavailableError, and what `is_unused` raises.
        """
        key = _key(name, version)
        if not self._files.exists(f"{key}/{MANIFEST_FILE}"):
            raise VersionNotFoundError(f"{name}/{version} is not in {self.location}")
        if not is_unused():
            return False
        self._files.delete(f"{key}/{MANIFEST_FILE}")
        self._remove_objects(key)
        return True

    def remove_leftovers(self, now: float, older_than_seconds: float = LEFTOVER_SECONDS) -> int:
        """Remove what has no manifest, when nothing in it changed for so long. `now` is epoch seconds."""
        removed = 0
        for pair in self._folders(None):
            if self.contains(*pair):
                continue
            key = _key(*pair)
            times = [self._files.modified_at(f"{key}/{name}") for name in self._files.list_names(key)]
            known = [time for time in times if time is not None]
            if known and now - max(known) > older_than_seconds:
                self._remove_objects(key)
                removed += 1
        return removed

    def _resolve(self, name: str, version: str, signatures: SignaturePolicy) -> RemoteVersion:
        key = _key(name, version)
        try:
            data = self._files.read(f"{key}/{MANIFEST_FILE}", MAX_MANIFEST_BYTES)
        except VersionNotFoundError:
            raise VersionNotFoundError(f"{name}/{version} is not in {self.location}") from None
        if signatures.required:
            signatures.check(f"{name}/{version}", data, self._read_signature(key, data))
        return RemoteVersion(self._files, parse_manifest(data, name, version), data)

    def _read_signature(self, key: str, manifest: bytes) -> bytes | None:
        try:
            return self._files.read(_signature_key(key, manifest), MAX_SIGNATURE_BYTES)
        except VersionNotFoundError:
            return None

    def _folders(self, name: str | None) -> list[tuple[str, str]]:
        models = self._safe_names("") if name is None else [check_name("model name", name)]
        return [(model, version) for model in models for version in self._safe_names(model)]

    def _safe_names(self, key: str) -> list[str]:
        return [name for name in self._files.list_names(key) if _is_name(name)]

    def _remove_objects(self, key: str) -> None:
        for name in self._files.list_names(key):
            self._files.delete(f"{key}/{name}")


def _is_name(name: str) -> bool:
    try:
        check_name("name", name)
    except ModelStoreError:
        return False
    return True


def _key(name: str, version: str) -> str:
    return f"{check_name('model name', name)}/{check_name('version', version)}"


def _signature_key(key: str, manifest: bytes) -> str:
    """Named by the manifest that it signs, so that a publisher who loses a race leaves the winner's signature alone."""
    return f"{key}/manifest-{hashlib.sha256(manifest).hexdigest()}.sig"
