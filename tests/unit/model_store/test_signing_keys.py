"""Private keys stay in files that only their owner can read, and never come out in words."""

import json
import os
from pathlib import Path

import pytest

from model_store.signatures import SignaturePolicy, signed_message
from model_store.signing_keys import SigningKey, is_signed_by
from schemas.errors import BadSignatureError, ConfigurationError, UnsafeNameError


@pytest.fixture
def key() -> SigningKey:
    return SigningKey.create("release-1")


def test_a_key_survives_its_file_which_only_its_owner_can_read(key: SigningKey, tmp_path: Path) -> None:
    path = tmp_path / "k"
    mask = os.umask(0)
    try:
        key.write(path)
    finally:
        os.umask(mask)

    assert path.stat().st_mode & 0o777 == 0o600
    again = SigningKey.read(path)
    assert (again.id, again.public_key) == (key.id, key.public_key)
    assert again.sign(b"x") == key.sign(b"x")


def test_a_key_is_never_written_over(key: SigningKey, tmp_path: Path) -> None:
    key.write(tmp_path / "k")

    with pytest.raises(ConfigurationError, match="exists"):
        SigningKey.create("other").write(tmp_path / "k")
    assert SigningKey.read(tmp_path / "k").id == "release-1"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(key: SigningKey, tmp_path: Path, mode: int) -> None:
    key.write(tmp_path / "k")
    (tmp_path / "k").chmod(mode)

    with pytest.raises(ConfigurationError, match="others may read it"):
        SigningKey.read(tmp_path / "k")


@pytest.mark.parametrize("content", [b"", b"{}", b"\x80\x04.", b'{"id": "a", "private_key": "AAAA"}', b"x" * 9999])
def test_a_file_that_is_no_key_is_refused_without_showing_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "k"
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(ConfigurationError, match="key file"):
        SigningKey.read(path)


def test_a_key_shows_nothing_of_its_private_half(key: SigningKey, tmp_path: Path) -> None:
    key.write(tmp_path / "k")
    private = json.loads((tmp_path / "k").read_text())["private_key"]

    assert private not in f"{key!r} {key} {vars(key)}"


@pytest.mark.parametrize("name", ["", "../x", "A", "a b"])
def test_a_key_id_is_a_name(name: str) -> None:
    with pytest.raises(UnsafeNameError):
        SigningKey.create(name)


def test_a_signature_means_a_manifest_and_nothing_else(key: SigningKey) -> None:
    policy = SignaturePolicy(True, {key.id: key.public_key})
    signature = key.sign(b"manifest")

    policy.check("m/v1", b"manifest", signature)
    for altered in (b"manifest ", b"", signed_message(b"manifest")):
        with pytest.raises(BadSignatureError):
            policy.check("m/v1", altered, signature)


@pytest.mark.parametrize("public", ["", "AAAA", "not base64!"])
def test_a_public_key_that_is_none_is_a_configuration_error(public: str) -> None:
    with pytest.raises(ConfigurationError, match="trusted_keys"):
        is_signed_by(public, b"x", bytes(64))
