import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from model_store.store import INCOMING_PREFIX, ModelStore
from schemas.errors import (
    ChecksumMismatchError,
    ManifestError,
    ModelStoreError,
    UnsafeFileError,
    UnsafeNameError,
    VersionExistsError,
    VersionNotFoundError,
)
from schemas.manifest import MANIFEST_FILE, MAX_MANIFEST_BYTES, WEIGHTS_FILE
from tests.unit.model_store.builders import SOUND_WEIGHTS, publish, safetensors, tensor

HOSTILE_NAMES = [
    "../../etc/passwd", "/abs", "..\\..", "%2e%2e%2f", "%252e", "v1/../v2", "v1\0", ".", "..", "", "x" * 300, "v1\n",
    "C:\\x", "file:///x", "http://x", "s3://other", "\u202ev1", "\uff0e\uff0e", "V1", " v1", "a..b", ".incoming-x",
    None, 7,
]  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "models")


def make_writable(path: Path) -> Path:
    path.chmod(0o644)
    return path


def edit_manifest(store: ModelStore, **changes: Any) -> None:
    path = make_writable(store.directory_of("m", "v1") / MANIFEST_FILE)
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_published_version_is_found_and_verified(store: ModelStore) -> None:
    published = publish(store)

    assert store.resolve("m", "v1") == store.verify("m", "v1") == published
    assert published.directory.is_relative_to(store.root)
    assert store.list_versions() == store.list_versions("m") == [("m", "v1")]
    assert store.list_versions("other") == []


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name_never_becomes_a_path(store: ModelStore, name: Any) -> None:
    publish(store)

    for call in (
        lambda: store.resolve(name, "v1"),
        lambda: store.resolve("m", name),
        lambda: publish(store, "m", name),
    ):
        with pytest.raises(UnsafeNameError):
            call()


@pytest.mark.parametrize(("name", "version"), [("m", "v2"), ("other", "v1")])
def test_a_version_that_is_not_there_is_said_to_be_missing(store: ModelStore, name: str, version: str) -> None:
    publish(store)

    with pytest.raises(VersionNotFoundError):
        store.resolve(name, version)


def test_a_version_is_never_replaced(store: ModelStore) -> None:
    publish(store)

    with pytest.raises(VersionExistsError):
        publish(store, weights=safetensors({}))
    assert store.verify("m", "v1")
    assert not list(store.root.glob(f"{INCOMING_PREFIX}*"))


def test_the_slower_of_two_publishers_gets_a_clear_error(store: ModelStore) -> None:
    published = publish(store, "m", "v2")
    manifest = published.manifest.model_copy(update={"version": "v1"})
    with store.incoming() as slower:
        for name in (WEIGHTS_FILE, MANIFEST_FILE):
            (slower / name).write_bytes((published.directory / name).read_bytes())
        publish(store)

        with pytest.raises(VersionExistsError):
            store.commit(slower, manifest)
    assert store.verify("m", "v1")


@pytest.mark.parametrize("position", range(0, len(SOUND_WEIGHTS), len(SOUND_WEIGHTS) // 19))
def test_one_flipped_bit_is_found(store: ModelStore, position: int) -> None:
    path = make_writable(publish(store).directory / WEIGHTS_FILE)
    data = bytearray(SOUND_WEIGHTS)
    data[position] ^= 1 << position % 8
    path.write_bytes(data)

    with pytest.raises(ChecksumMismatchError, match="SHA-256"):
        store.verify("m", "v1")


@pytest.mark.parametrize("length", range(0, len(SOUND_WEIGHTS), len(SOUND_WEIGHTS) // 19))
def test_a_truncated_or_lengthened_file_is_found_without_reading_it(store: ModelStore, length: int) -> None:
    path = make_writable(publish(store).directory / WEIGHTS_FILE)

    for data in (SOUND_WEIGHTS[:length], SOUND_WEIGHTS + bytes(length + 1)):
        path.write_bytes(data)
        with pytest.raises(ChecksumMismatchError, match="bytes"):
            store.resolve("m", "v1")


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"}, {"version": "v2"}, {"format": 2}, {"model_class": "os:system"}, {"extra": 1}, {"files": []},
        {"files": [{"name": "../x", "size": 1, "sha256": "0" * 64}]}, {"options": {str(n): n for n in range(1000)}},
        {"model_class": "{{7*7}}"}, {"precision": "!!python/object"}, {"labels": "abc"},
    ],
)  # fmt: skip
def test_a_manifest_that_is_not_exactly_one_is_refused(store: ModelStore, changes: dict[str, Any]) -> None:
    publish(store)
    edit_manifest(store, **changes)

    with pytest.raises(ManifestError):
        store.resolve("m", "v1")


@pytest.mark.parametrize("text", [b"", b"[]", b'{"format":1,"format":1}', b"\x80\x04.", b"{" * 9000, b'{"a":NaN}'])
def test_a_manifest_that_is_not_json_is_refused(store: ModelStore, text: bytes) -> None:
    make_writable(publish(store).directory / MANIFEST_FILE).write_bytes(text)

    with pytest.raises(ManifestError):
        store.resolve("m", "v1")


def test_an_oversized_manifest_is_refused_unread(store: ModelStore) -> None:
    path = make_writable(publish(store).directory / MANIFEST_FILE)
    with path.open("r+b") as file:
        file.truncate(MAX_MANIFEST_BYTES * 1000)

    with pytest.raises(UnsafeFileError, match="larger"):
        store.resolve("m", "v1")


def test_a_file_that_the_manifest_does_not_list_is_refused(store: ModelStore) -> None:
    (publish(store).directory / "more.bin").write_bytes(b"")

    with pytest.raises(UnsafeFileError, match="not listed"):
        store.resolve("m", "v1")


def replace_by_link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def replace_by_hard_link(path: Path, outside: Path) -> None:
    path.hardlink_to(outside)


def replace_by_pipe(path: Path, outside: Path) -> None:
    os.mkfifo(path)


def replace_by_directory(path: Path, outside: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("replace", [replace_by_link, replace_by_hard_link, replace_by_pipe, replace_by_directory])
@pytest.mark.parametrize("name", [WEIGHTS_FILE, MANIFEST_FILE])
def test_only_plain_files_are_opened(store: ModelStore, tmp_path: Path, replace: Any, name: str) -> None:
    path = publish(store).directory / name
    outside = tmp_path / "outside"
    outside.write_bytes(path.read_bytes())
    path.unlink()
    replace(path, outside)

    with pytest.raises(UnsafeFileError):
        store.resolve("m", "v1")


@pytest.mark.parametrize("level", ["m", "m/v1"])
def test_a_linked_directory_is_refused_and_not_listed(store: ModelStore, tmp_path: Path, level: str) -> None:
    publish(store)
    (store.root / level).rename(tmp_path / "outside")
    (store.root / level).symlink_to(tmp_path / "outside")

    with pytest.raises(UnsafeFileError, match="not a directory"):
        store.resolve("m", "v1")
    assert store.list_versions() == []


def test_a_missing_file_is_said_to_be_missing(store: ModelStore) -> None:
    (publish(store).directory / WEIGHTS_FILE).unlink()

    with pytest.raises(VersionNotFoundError, match=WEIGHTS_FILE):
        store.resolve("m", "v1")


def test_weights_that_fit_their_hash_but_are_not_sound_are_refused(store: ModelStore) -> None:
    published = publish(store)
    bad = safetensors({"a": tensor(0, 8, [2]), "b": tensor(4, 24, [5])}, bytes(24))
    make_writable(published.directory / WEIGHTS_FILE).write_bytes(bad)
    entry = {"name": WEIGHTS_FILE, "size": len(bad), "sha256": hashlib.sha256(bad).hexdigest()}
    edit_manifest(store, files=[entry])

    with pytest.raises(UnsafeFileError, match="overlaps"):
        store.verify("m", "v1")


def test_leftovers_of_a_killed_publisher_go_by_age_and_are_never_listed(store: ModelStore) -> None:
    publish(store)
    leftover = store.root / f"{INCOMING_PREFIX}dead"
    leftover.mkdir()
    (leftover / WEIGHTS_FILE).write_bytes(b"half")
    changed = (leftover / WEIGHTS_FILE).stat().st_mtime

    assert store.list_versions() == [("m", "v1")]
    assert store.remove_leftovers(changed + 100, older_than_seconds=200) == 0
    assert store.remove_leftovers(changed + 300, older_than_seconds=200) == 1
    assert not leftover.exists()
    assert store.verify("m", "v1")


def test_a_store_that_is_not_there_is_empty(store: ModelStore) -> None:
    assert store.list_versions() == []
    assert store.remove_leftovers(0.0) == 0
    with pytest.raises(ModelStoreError):
        store.resolve("m", "v1")
