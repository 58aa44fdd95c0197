"""Model versions in a folder: ROOT/name/version with a manifest and exactly the files it lists, never changed."""

import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from model_store.plain_files import list_entries, open_plain, read_plain, sync_directory
from model_store.signatures import MAX_SIGNATURE_BYTES, NO_SIGNATURE, SignaturePolicy
from model_store.version_store import parse_manifest, verify_files
from schemas.errors import (
    ChecksumMismatchError,
    ModelStoreError,
    UnsafeFileError,
    VersionExistsError,
    VersionNotFoundError,
)
from schemas.manifest import MANIFEST_FILE, MAX_MANIFEST_BYTES, SIGNATURE_FILE, FileEntry, ModelManifest
from schemas.names import check_name

INCOMING_PREFIX = ".incoming-"
REMOVED_PREFIX = ".removed-"
LEFTOVER_SECONDS = 24 * 3600


@dataclass(frozen=True)
class ResolvedVersion:
    """A version whose manifest is sound and whose directory holds exactly the listed plain files, sizes included.

    Their content has not been read: that is :meth:`ModelStore.verify`.
    """

    directory: Path
    manifest: ModelManifest
    manifest_bytes: bytes = field(default=b"", repr=False)

    @property
    def name(self) -> str:
        """The model's name."""
        return self.manifest.name

    @property
    def version(self) -> str:
        """The version's name."""
        return self.manifest.version

    def open_file(self, entry: FileEntry) -> BinaryIO:
        """Open one of its files for reading. Raises VersionNotFoundError or UnsafeFileError."""
        return open_plain(self.directory / entry.name)


class ModelStore:
    """The versions below one root directory. Opens nothing until it is asked."""

    def __init__(self, root: Path, signatures: SignaturePolicy = NO_SIGNATURE) -> None:
        self.root = root
        self._signatures = signatures

    @property
    def location(self) -> str:
        """The root."""
        return str(self.root)

    def resolve(self, name: str, version: str) -> ResolvedVersion:
        """Find a version, and who signed it where that is required.

        Raises UnsafeNameError, VersionNotFoundError, SignatureError, ManifestError or UnsafeFileError.
        """
        return self._resolve(name, version, self._signatures)

    def _resolve(self, name: str, version: str, signatures: SignaturePolicy) -> ResolvedVersion:
        directory = self.directory_of(name, version)
        _check_directories(self.root, directory)
        data = read_plain(directory / MANIFEST_FILE, MAX_MANIFEST_BYTES)
        signatures.check(f"{name}/{version}", data, _read_signature(directory))
        manifest = parse_manifest(data, name, version)
        _check_files(directory, manifest)
        return ResolvedVersion(directory, manifest, data)

    def verify(self, name: str, version: str) -> ResolvedVersion:
        """Resolve a version and check every byte: SHA-256 of each file, and that the weights are sound safetensors.

        Raises as :meth:`resolve`, and ChecksumMismatchError.
        """
        resolved = self.resolve(name, version)
        verify_files(resolved)
        return resolved

    def contains(self, name: str, version: str) -> bool:
        """Whether the name is taken. Raises UnsafeNameError."""
        return os.path.lexists(self.directory_of(name, version))

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
        # Signed or not: whoever may publish may sign later, and whoever reads asks then.
        return self._resolve(manifest.name, manifest.version, NO_SIGNATURE)

    def attach_signature(self, name: str, version: str, signature: bytes) -> None:
        """Put a signature beside the manifest, in place of the one before, by one rename. Raises as :meth:`resolve`."""
        directory = self._resolve(name, version, NO_SIGNATURE).directory
        aside = self.root / f"{INCOMING_PREFIX}{secrets.token_hex(8)}"
        try:
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
            with os.fdopen(descriptor, "wb") as file:
                file.write(signature)
                file.flush()
                os.fsync(file.fileno())
            aside.rename(directory / SIGNATURE_FILE)
            sync_directory(directory)
        except OSError as error:
            raise ModelStoreError(f"{directory / SIGNATURE_FILE}: {error.strerror}") from error
        finally:
            aside.unlink(missing_ok=True)

    def remove(self, name: str, version: str, is_unused: Callable[[], bool]) -> bool:
        """Rename a version aside, ask `is_unused` once more, and remove it or put it back. True when removed.

        Raises VersionNotFoundError, UnsafeFileError, ModelStoreError, and what `is_unused` raises.
        """
        directory = self.directory_of(name, version)
        _check_directories(self.root, directory)
        aside = self.root / f"{REMOVED_PREFIX}{secrets.token_hex(8)}"
        unused = False
        try:
            directory.rename(aside)
            try:
                unused = is_unused()
            finally:
                if not unused:
                    aside.rename(directory)
        except OSError as error:
            raise ModelStoreError(f"{directory}: {error.strerror}") from error
        if unused:
            shutil.rmtree(aside, ignore_errors=True)
        return unused

    def remove_leftovers(self, now: float, older_than_seconds: float = LEFTOVER_SECONDS) -> int:
        """Remove what killed processes left, when nothing in it changed for so long. `now` is epoch seconds."""
        removed = 0
        for path, status in list_entries(self.root):
            if not path.name.startswith((INCOMING_PREFIX, REMOVED_PREFIX)):
                continue
            # A rename sets ctime alone, and tells how long a removed version has been aside.
            times = [status.st_mtime, status.st_ctime, *(child.st_mtime for _, child in list_entries(path))]
            if now - max(times) > older_than_seconds:
                if stat.S_ISDIR(status.st_mode):
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
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


def _read_signature(directory: Path) -> bytes | None:
    try:
        return read_plain(directory / SIGNATURE_FILE, MAX_SIGNATURE_BYTES)
    except VersionNotFoundError:
        return None


def _check_files(directory: Path, manifest: ModelManifest) -> None:
    listed = {MANIFEST_FILE, SIGNATURE_FILE, *(entry.name for entry in manifest.files)}
    for name in sorted({path.name for path, _ in list_entries(directory)} - listed):
        raise UnsafeFileError(f"{directory.name}: {name[:80]!r} is there but not listed in the manifest")
    for entry in manifest.files:
        with open_plain(directory / entry.name) as file:
            size = os.fstat(file.fileno()).st_size
        if size != entry.size:
            raise ChecksumMismatchError(f"{directory.name}/{entry.name}: {size} bytes, the manifest says {entry.size}")
