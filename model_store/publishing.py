"""Putting a new version into the store: written aside, synced, signed if asked, then made visible in one step."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from model_store.plain_files import CHUNK_BYTES, hash_file, open_plain
from model_store.precision_plan import FP32, PrecisionPlan
from model_store.version_store import StoredVersion, VersionStore
from model_store.weight_file import check_weight_file
from schemas.errors import ManifestError, ModelStoreError, VersionExistsError
from schemas.golden import GoldenSample
from schemas.manifest import (
    MANIFEST_FILE,
    MAX_MANIFEST_BYTES,
    SIGNATURE_FILE,
    WEIGHTS_FILE,
    FileEntry,
    ModelManifest,
)


@dataclass(frozen=True)
class VersionDraft:
    """What a publisher states about a version; the files and their hashes are found out."""

    name: str
    version: str
    model_class: str
    labels: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""
    precision: PrecisionPlan = FP32
    golden: GoldenSample | None = None
    """Checked whenever the version is loaded, before it may serve."""


class Signer(Protocol):
    """Who vouches for a version: :class:`model_store.signing_keys.SigningKey`."""

    def sign(self, manifest: bytes) -> bytes:
        """Return the signature file for a manifest."""


def publish_file(
    store: VersionStore, draft: VersionDraft, weights: Path, signer: Signer | None = None
) -> StoredVersion:
    """Publish a copy of a safetensors file.

    Raises UnsafeFileError for anything else, by content and whatever its name, VersionExistsError when the version is
    there, ManifestError for a draft that no manifest can hold, ModelStoreError when the disk refuses, UnavailableError
    when a remote store does.
    """
    check_weight_file(weights)  # before anything is written, a folder for it included
    return publish_with(store, draft, lambda target: _copy(weights, target), signer)


def publish_state(
    store: VersionStore,
    draft: VersionDraft,
    state: Mapping[str, Any],
    save: Callable[[Mapping[str, Any], Path], None],
    signer: Signer | None = None,
) -> StoredVersion:
    """Publish a state dict; `save` is :func:`model_store.torch_loader.save_state`. Raises as :func:`publish_file`."""
    return publish_with(store, draft, lambda target: save(state, target), signer)


def publish_with(
    store: VersionStore, draft: VersionDraft, write: Callable[[Path], None], signer: Signer | None = None
) -> StoredVersion:
    """Publish what `write` puts at the path it is given. The sequence that every way of publishing shares."""
    if store.contains(draft.name, draft.version):
        raise VersionExistsError(f"{draft.name}/{draft.version} is there already: versions never change")
    try:
        with store.incoming() as directory:
            weights = directory / WEIGHTS_FILE
            write(weights)
            check_weight_file(weights)
            manifest = _describe(draft, weights)
            written = _write_manifest(directory, manifest, signer)
            for name in (WEIGHTS_FILE, *written):
                _seal(directory / name)
            return store.commit(directory, manifest)
    except OSError as error:
        raise ModelStoreError(
            f"{draft.name}/{draft.version} cannot be written to store.root {store.location}: {error.strerror or error}"
        ) from error


def _copy(source: Path, target: Path) -> None:
    with open_plain(source) as reader, target.open("xb") as writer:
        while chunk := reader.read(CHUNK_BYTES):
            writer.write(chunk)


def _describe(draft: VersionDraft, weights: Path) -> ModelManifest:
    with open_plain(weights) as file:
        entry = {"name": WEIGHTS_FILE, "size": os.fstat(file.fileno()).st_size, "sha256": hash_file(file)}
    try:
        return ModelManifest(
            name=draft.name,
            version=draft.version,
            model_class=draft.model_class,
            files=(FileEntry.model_validate(entry),),
            labels=draft.labels,
            options=dict(draft.options),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            description=draft.description,
            precision=draft.precision.base,
            precision_plan=dict(draft.precision.layers),
            activation_ranges=dict(draft.precision.ranges),
            golden=draft.golden,
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ManifestError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


def _write_manifest(directory: Path, manifest: ModelManifest, signer: Signer | None) -> tuple[str, ...]:
    """Write the manifest and, with a signer, its signature. Returns the names of what was written."""
    data = manifest.model_dump_json(indent=2).encode()
    if len(data) > MAX_MANIFEST_BYTES:
        raise ManifestError(f"the manifest would have {len(data)} bytes; at most {MAX_MANIFEST_BYTES} are allowed")
    content = {MANIFEST_FILE: data} if signer is None else {MANIFEST_FILE: data, SIGNATURE_FILE: signer.sign(data)}
    for name, written in content.items():
        (directory / name).write_bytes(written)
    return tuple(content)


def _seal(path: Path) -> None:
    """Sync a file to disk and take the write permission off it: a version never changes."""
    with path.open("rb") as file:
        os.fchmod(file.fileno(), 0o444)
        os.fsync(file.fileno())
