"""Model versions on disk: ROOT/name/version with a manifest and exactly the files it lists, never changed."""

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from model_store.json_codec import decode_json
from model_store.plain_files import hash_file, list_entries, open_plain, read_plain, sync_directory
from model_store.weight_file import check_open_weights
from schemas.errors import (
    ChecksumMismatchError,
    InvalidRecordError,
    ManifestError,
    ModelStoreError,
    UnsafeFileError,
    VersionExistsError,
    VersionNotFoundError,
)
from schemas.manifest import MANIFEST_FILE, MAX_MANIFEST_BYTES, WEIGHTS_FILE, ModelManifest
from schemas.names import check_name

INCOMING_PREFIX = ".incoming-"
LEFTOVER_SECONDS = 24 * 3600
_MAX_DEPTH = 32


@dataclass(frozen=True)
class ResolvedVersion:
    """A version whose manifest is sound and whose directory holds exactly the listed plain files, sizes included.

    Their content has not been read: that is :meth:`ModelStore.verify`.
    """

    directory: Path
    manifest: ModelManifest

    @property
    def name(self) -> str:
        """The model's name."""
        return self.manifest.name

    @property
    def version(self) -> str:
        """The version's name."""
        return self.manifest.version


class ModelStore:
    """The versions below one root directory. Opens nothing until it is asked."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def resolve(self, name: str, version: str) -> ResolvedVersion:
        """Find a version. Raises UnsafeNameError, VersionNotFoundError, ManifestError or UnsafeFileError."""
        directory = self.directory_of(name, version)
        _check_directories(self.root, directory)
        manifest = _read_manifest(directory / MANIFEST_FILE)
        if (manifest.name, manifest.version) != (name, version):
            raise ManifestError(f"{name}/{version}: its manifest is that of {manifest.name}/{manifest.version}")
        _check_files(directory, manifest)
        return ResolvedVersion(directory, manifest)

    def verify(self, name: str, version: str) -> ResolvedVersion:
        """Resolve a version and check every byte: SHA-256 of each file, and that the weights are sound safetensors.

        Raises as :meth:`resolve`, and ChecksumMismatchError.
        """
        resolved = self.resolve(name, version)
        for entry in resolved.manifest.files:
            with open_plain(resolved.directory / entry.name) as file:
                found = hash_file(file)
                if found != entry.sha256:
                    raise ChecksumMismatchError(
                        f"{name}/{version}/{entry.name}: SHA-256 is {found}, the manifest says {entry.sha256}"
                    )
                if entry.name == WEIGHTS_FILE:
                    file.seek(0)
                    check_open_weights(file, f"{name}/{version}/{entry.name}")
        return resolved

    def list_versions(self, name: str | None = None) -> list[tuple[str, str]]:
        """Return (name, version) of what looks like a version, sorted; whether it is sound, `resolve` says."""
        names = [check_name("model name", name)] if name is not None else _safe_directories(self.root)
        return [(model, version) for model in names for version in _safe_directories(self.root / model)]

    def directory_of(self, name: str, version: str) -> Path:
        """Where a version lies or would lie. Raises UnsafeNameError."""
        return self.root / check_name("model name", name) / check_name("version", version)

    @contextmanager
    def incoming(self) -> Iterator[Path]:
        """A fresh directory beside the versions to write one into; gone afterwards unless it was committed."""
        self.root.mkdir(parents=True, exist_ok=True)
        directory = self.root / f"{INCOMING_PREFIX}{secrets.token_hex(8)}"
        directory.mkdir()
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def commit(self, incoming: Path, manifest: ModelManifest) -> ResolvedVersion:
        """Make a written version visible, whole or not at all, by one rename. The files must be synced already.

        Raises VersionExistsError when it is there already, be it from a publisher who was faster by a moment.
        """
        target = self.directory_of(manifest.name, manifest.version)
        _check_files(incoming, manifest)
        target.parent.mkdir(exist_ok=True)
        sync_directory(incoming)
        try:
            # Refused by the kernel when the target has files in it, which a published version always has.
            incoming.rename(target)
        except OSError as error:
            if target.exists():
                raise VersionExistsError(
                    f"{manifest.name}/{manifest.version} is there already: versions never change"
                ) from None
            raise ModelStoreError(f"{target}: {error.strerror}") from error
        sync_directory(target.parent)
        sync_directory(self.root)
        return self.resolve(manifest.name, manifest.version)

    def remove_leftovers(self, now: float, older_than_seconds: float = LEFTOVER_SECONDS) -> int:
        """Remove what killed publishers left, when nothing in it changed for so long. `now` is epoch seconds."""
        removed = 0
        for path, status in list_entries(self.root):
            if not path.name.startswith(INCOMING_PREFIX) or not stat.S_ISDIR(status.st_mode):
                continue
            times = [status.st_mtime, *(child.st_mtime for _, child in list_entries(path))]
            if now - max(times) > older_than_seconds:
                shutil.rmtree(path, ignore_errors=True)
                removed += 1
        return removed


def _safe_directories(parent: Path) -> list[str]:
    names = [path.name for path, status in list_entries(parent) if stat.S_ISDIR(status.st_mode)]
    return sorted(name for name in names if _is_name(name))


def _is_name(name: str) -> bool:
    try:
        check_name("name", name)
    except ModelStoreError:
        return False
    return True


def _check_directories(root: Path, directory: Path) -> None:
    """The two levels below the root must be real directories, so that no link leads out of it."""
    for path in (directory.parent, directory):
        try:
            mode = path.lstat().st_mode
        except FileNotFoundError:
            raise VersionNotFoundError(f"{directory.parent.name}/{directory.name} is not in {root}") from None
        if not stat.S_ISDIR(mode):
            raise UnsafeFileError(f"{path} is not a directory")
    if not directory.resolve().is_relative_to(root.resolve()):
        raise UnsafeFileError(f"{directory} leads out of {root}")


def _read_manifest(path: Path) -> ModelManifest:
    try:
        return ModelManifest.model_validate(decode_json(read_plain(path, MAX_MANIFEST_BYTES), _MAX_DEPTH))
    except InvalidRecordError as error:
        raise ManifestError(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "(whole)"
        raise ManifestError(f"{path}: {where}: {first['msg']}") from None


def _check_files(directory: Path, manifest: ModelManifest) -> None:
    listed = {MANIFEST_FILE, *(entry.name for entry in manifest.files)}
    if WEIGHTS_FILE not in listed:
        raise ManifestError(f"{directory.name}: the manifest lists no {WEIGHTS_FILE}")
    for name in sorted({path.name for path in directory.iterdir()} - listed):
        raise UnsafeFileError(f"{directory.name}: {name[:80]!r} is there but not listed in the manifest")
    for entry in manifest.files:
        with open_plain(directory / entry.name) as file:
            size = os.fstat(file.fileno()).st_size
        if size != entry.size:
            raise ChecksumMismatchError(f"{directory.name}/{entry.name}: {size} bytes, the manifest says {entry.size}")
