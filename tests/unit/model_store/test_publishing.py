import errno
import gzip
import io
import os
import pickle
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from model_store.publishing import VersionDraft, publish_file, publish_state, publish_with
from model_store.store import ModelStore
from model_store.torch_loader import save_state
from model_store.weight_file import check_weight_file
from schemas.errors import ManifestError, ModelStoreError, UnsafeFileError, VersionNotFoundError
from schemas.golden import GoldenSample
from schemas.manifest import WEIGHTS_FILE
from tests.unit.model_store.builders import CANARY_PICKLE, SOUND_WEIGHTS, safetensors, tensor

DRAFT = VersionDraft("m", "v1", "some-class", labels=("cat", "dog"), options={"side": 7})


def archive_of_pickle() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", CANARY_PICKLE)
        archive.writestr("../../outside", b"slip")
    return file.getvalue()


def tar_of_pickle(name: str = "data.pkl") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(CANARY_PICKLE)
        archive.addfile(member, io.BytesIO(CANARY_PICKLE))
    return file.getvalue()


HOSTILE = {
    "pickle": CANARY_PICKLE,
    "pickle-protocol-0": b"cos\nsystem\n(S'touch canary'\ntR.",
    "old-torch": b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + CANARY_PICKLE,
    "zip": archive_of_pickle(),
    "empty-zip": b"PK\x05\x06" + bytes(18),
    "tar": tar_of_pickle(),
    "tar-with-a-path-outside": tar_of_pickle("../../outside"),
    "tar-with-an-absolute-path": tar_of_pickle("/tmp/outside"),
    "gzip": gzip.compress(CANARY_PICKLE),
    "hdf5": b"\x89HDF\r\n\x1a\n" + bytes(100),
    "shared-library": b"\x7fELF" + bytes(100),
    "joblib": b"\x78\x9c" + bytes(50),
    "zip-after-safetensors": SOUND_WEIGHTS + archive_of_pickle(),
    "pickle-after-safetensors": SOUND_WEIGHTS + CANARY_PICKLE,
    "length-2-63": safetensors({}, b"", 2**63),
    "overlap": safetensors({"a": tensor(0, 8, [2]), "b": tensor(4, 12, [2])}, bytes(12)),
    "wrong-shape": safetensors({"a": tensor(0, 8, [3])}, bytes(8)),
    "duplicate": safetensors(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{}}'),
    "empty": b"",
    "text": b"just text, long enough to have a length",
}
SUFFIXES = (".pt", ".pth", ".bin", ".pkl", ".ckpt", ".joblib", ".pt2", ".safetensors")


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models")


@pytest.mark.parametrize("kind", HOSTILE)
def test_anything_but_sound_safetensors_is_refused_by_content(
    store: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def unreachable(*_: Any, **__: Any) -> None:
        raise AssertionError("something that can run code was called")

    for module, name in (
        (pickle, "load"),
        (pickle, "loads"),
        (pickle, "Unpickler"),
        (torch, "load"),
        (torch.jit, "load"),
    ):
        monkeypatch.setattr(module, name, unreachable)
    monkeypatch.chdir(tmp_path)

    for suffix in SUFFIXES:
        path = tmp_path / f"model{suffix}"
        path.write_bytes(HOSTILE[kind])
        with pytest.raises(UnsafeFileError):
            publish_file(store, DRAFT, path)

    assert store.list_versions() == []
    assert not (tmp_path / "canary").exists()
    assert not store.root.exists()


def test_a_safetensors_file_is_published_whatever_its_name(store: ModelStore, tmp_path: Path) -> None:
    source = tmp_path / "weights.bin"
    source.write_bytes(SOUND_WEIGHTS)

    published = publish_file(store, DRAFT, source)

    manifest = store.verify("m", "v1").manifest
    assert manifest == published.manifest
    assert (manifest.model_class, manifest.labels, manifest.options) == ("some-class", ("cat", "dog"), {"side": 7})
    assert (published.directory / WEIGHTS_FILE).read_bytes() == SOUND_WEIGHTS
    assert (published.directory / WEIGHTS_FILE).stat().st_mode & 0o222 == 0


def test_a_header_whose_length_looks_like_a_zip_is_still_safetensors(tmp_path: Path) -> None:
    text = b"{}".ljust(0x4B50)
    path = tmp_path / "w"
    path.write_bytes(safetensors(text))

    assert check_weight_file(path) == ()


def test_a_state_is_published_through_the_torch_door(store: ModelStore) -> None:
    publish_state(store, DRAFT, {"a": torch.ones(2)}, save_state)

    assert check_weight_file(store.verify("m", "v1").directory / WEIGHTS_FILE)[0].name == "a"


def test_a_weights_file_that_is_not_there_is_said_to_be_missing(store: ModelStore, tmp_path: Path) -> None:
    with pytest.raises(VersionNotFoundError):
        publish_file(store, DRAFT, tmp_path / "none")


@pytest.mark.parametrize("options", [{"x": object()}, {str(n): n for n in range(100)}])
def test_a_draft_that_no_manifest_can_hold_is_refused(store: ModelStore, options: dict[str, Any]) -> None:
    with pytest.raises(ManifestError):
        publish_with(
            store, VersionDraft("m", "v1", "c", options=options), lambda path: path.write_bytes(SOUND_WEIGHTS) and None
        )
    assert store.list_versions() == []


def test_a_full_disk_is_a_typed_error_and_leaves_nothing(store: ModelStore) -> None:
    def fill(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(ModelStoreError, match="No space left"):
        publish_with(store, DRAFT, fill)
    assert list(store.root.iterdir()) == []


def test_a_golden_sample_is_part_of_the_version(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(SOUND_WEIGHTS)
    store = ModelStore(tmp_path / "store")
    for version, golden in [
        ("v1", GoldenSample(payload={"x": 1}, answer=[0.5, None], tolerance=0.01)),
        ("v2", GoldenSample(payload_base64="/9g=", content_type="image/jpeg", answer={"label": "cat"})),
    ]:
        publish_file(store, VersionDraft("m", version, "some-class", golden=golden), weights)
        assert store.resolve("m", version).manifest.golden == golden
