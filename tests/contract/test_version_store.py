"""The same promises of every store of versions: a folder, a file: URL, and fsspec's local, memory and S3 backends."""

import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from model_store.local_cache import LocalCache
from model_store.publishing import Signer, VersionDraft, publish_with
from model_store.remote_store import RemoteStore
from model_store.signatures import NO_SIGNATURE, SignaturePolicy
from model_store.signing_keys import SigningKey
from model_store.store import ModelStore
from model_store.store_opening import open_location
from model_store.version_store import StoredVersion, VersionStore
from schemas.errors import (
    BadSignatureError,
    ChecksumMismatchError,
    ConfigurationError,
    ManifestError,
    UnavailableError,
    UnknownKeyError,
    UnsafeFileError,
    UnsafeNameError,
    UnsignedVersionError,
    VersionExistsError,
    VersionNotFoundError,
)
from schemas.manifest import MAX_MANIFEST_BYTES, WEIGHTS_FILE
from tests.conftest import skip_or_fail
from tests.unit.model_store.builders import SOUND_WEIGHTS, safetensors

BACKENDS = ("folder", "file", "local", "memory", "s3")


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    """The address of an S3 server on loopback: moto's, which speaks the real protocol to the real client."""
    try:
        import s3fs  # noqa: F401, PLC0415 - an optional extra
        from moto.server import ThreadedMotoServer  # noqa: PLC0415
    except ImportError as error:
        skip_or_fail(f"no S3 server: {error}")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(params=BACKENDS)
def location(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a fresh store lies, for one backend after the other."""
    root = tmp_path / "models"
    if request.param == "s3":
        monkeypatch.setenv("AWS_ENDPOINT_URL", request.getfixturevalue("s3_server"))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "for-a-server-on-loopback")
        import s3fs  # noqa: PLC0415 - an optional extra

        bucket = f"models-{secrets.token_hex(4)}"
        s3fs.S3FileSystem(skip_instance_cache=True).mkdir(bucket)
        return f"s3://{bucket}/some/prefix"
    if request.param == "local":
        root.mkdir()
    return {
        "folder": str(root),
        "file": root.as_uri(),
        "local": f"local://{root}",
        "memory": f"memory://models-{secrets.token_hex(4)}",
    }[request.param]


@pytest.fixture
def store(location: str) -> VersionStore:
    return open_location(location)


def publish(
    store: VersionStore,
    version: str = "v1",
    weights: bytes = SOUND_WEIGHTS,
    *,
    signer: Signer | None = None,
    description: str = "",
) -> StoredVersion:
    draft = VersionDraft("m", version, "some-class", description=description)
    return publish_with(store, draft, lambda path: path.write_bytes(weights) and None, signer)


def edit(store: VersionStore, name: str, change: Callable[[bytes], bytes], version: str = "v1") -> None:
    """Change a stored file behind the store's back: the manifest, or the weights."""
    if isinstance(store, RemoteStore):
        key = f"m/{version}/{name}"
        if name == WEIGHTS_FILE:
            key = f"m/{version}/{store.resolve('m', version).manifest.files[0].sha256}"
        store._files.write(key, change(store._files.read(key, 1 << 22)))
        return
    path = cast("ModelStore", store).directory_of("m", version) / name
    path.chmod(0o644)
    path.write_bytes(change(path.read_bytes()))


def signing(location: str) -> tuple[SigningKey, VersionStore]:
    """A key, and the store as one who trusts that key alone."""
    key = SigningKey.create("release")
    return key, open_location(location, SignaturePolicy(True, {"release": key.public_key}))


def test_a_published_version_is_found_verified_and_read(store: VersionStore, tmp_path: Path) -> None:
    published = publish(store)

    assert store.resolve("m", "v1") == store.verify("m", "v1") == published
    assert store.contains("m", "v1")
    with LocalCache(tmp_path / "cache", 1 << 20).fetch_weights(published) as cached:
        assert cached.path.read_bytes() == SOUND_WEIGHTS


def test_versions_are_listed_in_order_and_only_once_they_are_visible(store: VersionStore) -> None:
    assert store.list_versions() == store.list_versions("m") == []

    for version in ("v2", "v1"):
        publish(store, version)

    assert store.list_versions() == store.list_versions("m") == [("m", "v1"), ("m", "v2")]
    assert store.list_versions("other") == []


def test_a_version_never_changes(store: VersionStore) -> None:
    published = publish(store)

    with pytest.raises(VersionExistsError):
        publish(store, weights=safetensors({}))
    assert store.verify("m", "v1") == published


def test_of_two_publishers_at_once_one_wins_and_the_version_is_whole(store: VersionStore) -> None:
    draft = VersionDraft("m", "v1", "some-class", description="slower")

    def write(path: Path) -> None:
        publish(store, description="faster")  # between the slower one's first look and its commit
        path.write_bytes(safetensors({}))

    with pytest.raises(VersionExistsError):
        publish_with(store, draft, write)
    assert store.verify("m", "v1").manifest.description == "faster"


def test_what_fails_while_it_is_written_leaves_nothing_visible(store: VersionStore) -> None:
    with pytest.raises(UnsafeFileError):
        publish(store, weights=b"not weights at all")

    assert store.list_versions() == []
    assert not store.contains("m", "v1")


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a\0", "%2e%2e"])
def test_a_hostile_name_never_becomes_a_path(store: VersionStore, name: str) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: store.resolve(name, "v1"),
        lambda: store.resolve("m", name),
        lambda: store.contains("m", name),
        lambda: store.list_versions(name),
        lambda: store.remove("m", name, lambda: True),
    ]
    for call in calls:
        with pytest.raises(UnsafeNameError):
            call()


def test_a_version_that_is_not_there_is_said_to_be_missing(store: VersionStore) -> None:
    for call in (store.resolve, store.verify):
        with pytest.raises(VersionNotFoundError, match="m/v1"):
            call("m", "v1")


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b"\xff" + data[1:]])
def test_an_altered_file_is_refused_and_never_reaches_the_cache(
    store: VersionStore, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    resolved = publish(store)
    edit(store, WEIGHTS_FILE, change)

    with pytest.raises(ChecksumMismatchError):
        store.verify("m", "v1")
    with pytest.raises(ChecksumMismatchError):
        LocalCache(tmp_path / "cache", 1 << 20).fetch_weights(resolved)
    assert not [path for path in (tmp_path / "cache").iterdir() if path.name != ".lock"]


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"format": 2}', b"\x80\x04."])
def test_a_manifest_that_is_not_one_is_refused(store: VersionStore, content: bytes) -> None:
    publish(store)
    edit(store, "manifest.json", lambda _: content)

    with pytest.raises(ManifestError):
        store.resolve("m", "v1")


def test_a_manifest_is_read_within_its_bound(store: VersionStore) -> None:
    publish(store)
    edit(store, "manifest.json", lambda data: data + b" " * MAX_MANIFEST_BYTES)

    with pytest.raises(UnsafeFileError, match="larger"):
        store.resolve("m", "v1")


def test_a_manifest_of_another_version_is_refused(store: VersionStore) -> None:
    publish(store)
    publish(store, "v2")
    other = store.resolve("m", "v2").manifest_bytes
    edit(store, "manifest.json", lambda _: other)

    with pytest.raises(ManifestError, match="that of m/v2"):
        store.resolve("m", "v1")


def test_a_removed_version_is_gone_and_what_was_resolved_before_fails_by_name(
    store: VersionStore, tmp_path: Path
) -> None:
    resolved = publish(store)
    publish(store, "v2")

    assert store.remove("m", "v1", lambda: True)

    assert store.list_versions() == [("m", "v2")]
    with pytest.raises(VersionNotFoundError):
        store.remove("m", "v1", lambda: True)
    with pytest.raises(VersionNotFoundError):
        LocalCache(tmp_path / "cache", 1 << 20).fetch_weights(resolved)
    assert publish(store) == store.verify("m", "v1")


def test_a_version_that_is_named_at_the_last_moment_stays(store: VersionStore) -> None:
    published = publish(store)

    def unknown() -> bool:
        raise UnavailableError("Redis is away")

    assert not store.remove("m", "v1", lambda: False)
    with pytest.raises(UnavailableError):
        store.remove("m", "v1", unknown)
    assert store.verify("m", "v1") == published


def test_what_a_killed_publisher_left_goes_by_age_alone(store: VersionStore, tmp_path: Path) -> None:
    publish(store)
    if isinstance(store, RemoteStore):
        store._files.write("m/v9/" + "0" * 64, b"half")
    else:
        (cast("ModelStore", store).root / ".incoming-dead").mkdir()

    now = tmp_path.stat().st_mtime
    assert store.remove_leftovers(now, older_than_seconds=3600) == 0
    assert store.remove_leftovers(now + 7200, older_than_seconds=3600) == 1
    assert store.remove_leftovers(now + 7200, older_than_seconds=3600) == 0
    assert store.verify("m", "v1")


def test_a_signed_version_is_accepted_by_those_who_trust_its_key(location: str) -> None:
    key, strict = signing(location)

    published = publish(strict, signer=key)

    assert strict.resolve("m", "v1") == strict.verify("m", "v1") == published


def test_a_version_is_signed_later_and_signed_again_by_another_key(store: VersionStore, location: str) -> None:
    key, strict = signing(location)
    published = publish(store)
    with pytest.raises(UnsignedVersionError, match="models sign"):
        strict.resolve("m", "v1")

    store.attach_signature("m", "v1", SigningKey.create("old").sign(published.manifest_bytes))
    with pytest.raises(UnknownKeyError, match=r"'old'.*release"):
        strict.resolve("m", "v1")

    store.attach_signature("m", "v1", key.sign(published.manifest_bytes))
    assert strict.verify("m", "v1") == published


def test_a_manifest_that_was_changed_after_signing_is_refused_unparsed(location: str) -> None:
    key, strict = signing(location)
    publish(strict, signer=key)
    unsigned = open_location(location, NO_SIGNATURE)

    changed = json.loads(unsigned.resolve("m", "v1").manifest_bytes) | {"model_class": "another"}
    edit(unsigned, "manifest.json", lambda _: json.dumps(changed).encode())

    # Where signatures are named by what they sign, a changed manifest has none; elsewhere its signature is a wrong one.
    with pytest.raises((BadSignatureError, UnsignedVersionError)):
        strict.resolve("m", "v1")


def test_a_signature_of_another_version_is_refused(store: VersionStore, location: str) -> None:
    key, strict = signing(location)
    publish(strict, "v1", signer=key)
    publish(store, "v2")

    store.attach_signature("m", "v2", key.sign(store.resolve("m", "v1").manifest_bytes))

    with pytest.raises(BadSignatureError, match="another version"):
        strict.resolve("m", "v2")


def test_a_signature_under_the_wrong_key_id_is_refused(store: VersionStore, location: str) -> None:
    _, strict = signing(location)
    published = publish(store)
    impostor = SigningKey.create("release")

    store.attach_signature("m", "v1", impostor.sign(published.manifest_bytes))

    with pytest.raises(BadSignatureError):
        strict.resolve("m", "v1")


@pytest.mark.parametrize("data", [b"", b"{}", b"\x80\x04.", b'{"key": "release", "signature": "AAAA"}', b"x" * 5000])
def test_a_signature_file_that_is_not_one_is_refused(store: VersionStore, location: str, data: bytes) -> None:
    _, strict = signing(location)
    publish(store)
    store.attach_signature("m", "v1", data)

    with pytest.raises((BadSignatureError, UnsafeFileError)):
        strict.resolve("m", "v1")


def test_a_url_that_no_backend_serves_is_a_configuration_error() -> None:
    for url in ("nosuchscheme://x/y", "abfs://container/models"):
        with pytest.raises(ConfigurationError, match=url.partition(":")[0]):
            open_location(url).resolve("m", "v1")


def test_a_server_that_does_not_answer_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs", reason="the extra headrace[s3] is not installed")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "for-a-server-on-loopback")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    with pytest.raises(UnavailableError, match="s3://nobody"):
        open_location("s3://nobody/models").resolve("m", "v1")
