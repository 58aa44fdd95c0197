"""What a model process refuses to load, and the reason that a person reads: one row a case. Nothing of it ever runs."""

import fcntl
import hashlib
import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from examples.mlp import build_mlp
from model_store.publishing import VersionDraft, publish_state
from model_store.signing_keys import SigningKey
from model_store.store import ModelStore
from model_store.torch_loader import save_state
from schemas.errors import (
    BadSignatureError,
    ChecksumMismatchError,
    ManifestError,
    ModelStoreError,
    UnknownKeyError,
    UnsafeFileError,
    UnsignedVersionError,
    VersionNotFoundError,
)
from stream_workers.batching.work import ServedVersion
from stream_workers.pipeline.model_loading import load_warm
from tests.unit.stream_workers.builders import load_order

TRUSTED = SigningKey.create("release")
STRANGER = SigningKey.create("stranger")


class Canary:
    """Unpickling it leaves a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("canary"),))


def zip_of(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def tar_of(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def checkpoint() -> bytes:
    file = io.BytesIO()
    torch.save(build_mlp().state_dict(), file)
    return file.getvalue()


def write(path: Path, data: bytes) -> None:
    if path.exists():
        path.chmod(0o644)
    path.write_bytes(data)


def weights_become(data: bytes, *, listed: bool = False) -> Callable[[Path], None]:
    """Replace the weights; `listed`: and have the manifest say that they are so."""

    def damage(version: Path) -> None:
        write(version / "weights.safetensors", data)
        if listed:
            entry = {"name": "weights.safetensors", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            manifest_says(files=[entry])(version)

    return damage


def manifest_says(**changes: Any) -> Callable[[Path], None]:
    def damage(version: Path) -> None:
        path = version / "manifest.json"
        write(path, json.dumps({**json.loads(path.read_text()), **changes}).encode())

    return damage


def weights_change(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda version: weights_become(change((version / "weights.safetensors").read_bytes()))(version)


def sign_with(key: SigningKey) -> Callable[[Path], None]:
    return lambda version: write(version / "manifest.sig", key.sign((version / "manifest.json").read_bytes()))


def sign_then_change(version: Path) -> None:
    sign_with(TRUSTED)(version)
    manifest_says(description="another")(version)


def sign_another(version: Path) -> None:
    write(version / "manifest.sig", TRUSTED.sign(b"another manifest"))


def shapes_change(version: Path) -> None:
    state = {name: torch.zeros(*tensor.shape, 1) for name, tensor in build_mlp().state_dict().items()}
    other = version.parent / "other"
    save_state(state, other)
    weights_become(other.read_bytes(), listed=True)(version)


def link_outside(version: Path) -> None:
    path = version / "weights.safetensors"
    path.rename(version.parent / "moved")
    path.symlink_to(version.parent / "moved")


PICKLE = pickle.dumps(Canary())
SIGNED_ONLY: dict[str, Any] = {"require_signature": True, "trusted_keys": {"release": TRUSTED.public_key}}

Row = tuple[Callable[[Path], None], dict[str, Any], type[ModelStoreError], str]
ROWS: dict[str, Row] = {
    "a truncated file": (weights_change(lambda data: data[:-5]), {}, ChecksumMismatchError, "bytes, the manifest says"),
    "a wrong hash": (weights_change(lambda d: d[:-1] + b"\x7f"), {}, ChecksumMismatchError, "SHA-256 is .* says"),
    "wrong shapes": (shapes_change, {}, ManifestError, "the file has .*the model class needs"),
    "a pickle": (weights_become(pickle.dumps([1])), {}, ChecksumMismatchError, "bytes, the manifest says"),
    "a pickle that is listed": (weights_become(pickle.dumps([1]), listed=True), {}, ManifestError, "safetensors"),
    "a malicious pickle": (weights_become(PICKLE, listed=True), {}, ManifestError, "safetensors"),
    "a malicious pickle as manifest": (
        lambda version: write(version / "manifest.json", PICKLE), {}, ManifestError, "the manifest of m/v1",
    ),
    "a torch checkpoint": (weights_become(checkpoint(), listed=True), {}, ManifestError, "safetensors"),
    "a zip with a path outside": (
        weights_become(zip_of("../../outside", PICKLE), listed=True), {}, ManifestError, "safetensors",
    ),
    "a tar with a path outside": (
        weights_become(tar_of("../../outside", PICKLE), listed=True), {}, ManifestError, "safetensors",
    ),
    "a file that nobody listed": (
        lambda version: write(version / "extra.pkl", PICKLE), {}, UnsafeFileError, "not listed in the manifest",
    ),
    "a link": (link_outside, {}, UnsafeFileError, "not a readable plain file"),
    "a missing file": (
        lambda version: (version / "weights.safetensors").unlink(), {}, VersionNotFoundError, "is not there",
    ),
    "an import path as class": (manifest_says(model_class="os"), {}, ManifestError, "is not registered; known: "),
    "unsigned": (lambda _: None, SIGNED_ONLY, UnsignedVersionError, "m/v1 is not signed and store.require_signature"),
    "signed by a stranger": (sign_with(STRANGER), SIGNED_ONLY, UnknownKeyError, "'stranger'; store"),
    "changed after signing": (sign_then_change, SIGNED_ONLY, BadSignatureError, "changed after it was signed"),
    "the signature of another version": (sign_another, SIGNED_ONLY, BadSignatureError, "of another version"),
    "a pickle as signature": (
        lambda version: write(version / "manifest.sig", PICKLE), SIGNED_ONLY, BadSignatureError, "signature file",
    ),
}  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    made = ModelStore(tmp_path / "store")
    publish_state(made, VersionDraft("m", "v1", "mlp"), build_mlp().state_dict(), save_state)
    return made


def load(store: ModelStore, cache: Path, **more: Any) -> Any:
    order = load_order(
        version=ServedVersion("m", "v1", 1),
        store_root=str(store.root),
        cache_dir=str(cache),
        cache_bytes=1 << 30,
        classes={"mlp": "examples.mlp:MlpClassifier"},
        slot_bytes=1 << 16,
        **more,
    )
    return load_warm(order)


def held(cache: Path) -> list[str]:
    """Cached files that somebody uses."""
    found = []
    for path in cache.glob("*"):
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(path.name)
    return found


@pytest.mark.parametrize(("damage", "more", "error", "reason"), ROWS.values(), ids=ROWS)
def test_a_version_is_refused_with_a_reason_and_nothing_of_it_runs(
    store: ModelStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    damage: Callable[[Path], None],
    more: dict[str, Any],
    error: type[ModelStoreError],
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    damage(store.directory_of("m", "v1"))

    with pytest.raises(error, match=reason):
        load(store, tmp_path / "cache", **more)

    assert not [path for path in (tmp_path, tmp_path.parent) if list(path.glob("canary")) or list(path.glob("outside"))]
    assert held(tmp_path / "cache") == []


def test_what_a_trusted_key_signed_is_loaded(store: ModelStore, tmp_path: Path) -> None:
    sign_with(TRUSTED)(store.directory_of("m", "v1"))

    warm = load(store, tmp_path / "cache", **SIGNED_ONLY)

    assert warm.warmed
    assert held(tmp_path / "cache")
    warm._weights.close()


def test_unsigned_versions_do_not_even_reach_the_cache(store: ModelStore, tmp_path: Path) -> None:
    with pytest.raises(UnsignedVersionError):
        load(store, tmp_path / "cache", **SIGNED_ONLY)

    assert not (tmp_path / "cache").exists()
