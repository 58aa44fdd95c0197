"""The cryptography door: Ed25519 keys in files that only their owner can read, signatures made and checked."""

import base64
import binascii
import os
import stat
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from model_store.plain_files import open_plain
from model_store.signatures import encode_signature, signed_message
from schemas.errors import ConfigurationError, ModelStoreError
from schemas.names import check_name

_MAX_KEY_FILE_BYTES = 4096
_KEY_BYTES = 32


class _KeyFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    private_key: str
    format: int = 1


class SigningKey:
    """A private key and its id. Shows neither itself nor its bytes."""

    def __init__(self, key_id: str, private: Ed25519PrivateKey) -> None:
        self.id = check_name("key id", key_id)
        self._private = private

    @classmethod
    def create(cls, key_id: str) -> "SigningKey":
        """Make a new key from the system's randomness. Raises UnsafeNameError."""
        return cls(key_id, Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, path: Path) -> "SigningKey":
        """Read a key file. Raises ConfigurationError for one that others may read or that is not one."""
        try:
            with open_plain(path) as file:
                if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                    raise ConfigurationError(f"key file {path}: others may read it; `chmod 600` it, or make a new key")
                data = file.read(_MAX_KEY_FILE_BYTES + 1)
        except ModelStoreError as error:
            raise ConfigurationError(f"key file: {error}") from None
        try:
            found = msgspec.json.decode(data, type=_KeyFile)
            raw = base64.b64decode(found.private_key, validate=True)
        except (msgspec.DecodeError, binascii.Error, ValueError):
            raise ConfigurationError(f"key file {path}: not one of `headrace models keys create`") from None
        if found.format != 1 or len(raw) != _KEY_BYTES:
            raise ConfigurationError(f"key file {path}: not of format 1 with {_KEY_BYTES} bytes")
        return cls(found.id, Ed25519PrivateKey.from_private_bytes(raw))

    @property
    def public_key(self) -> str:
        """The public half as base64, for `store.trusted_keys`."""
        return base64.b64encode(self._private.public_key().public_bytes_raw()).decode()

    def write(self, path: Path) -> None:
        """Write the key file, mode 0600 from its first moment. Raises ConfigurationError when something is there."""
        content = _KeyFile(self.id, base64.b64encode(self._private.private_bytes_raw()).decode())
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(f"key file {path}: {error.strerror}") from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def sign(self, manifest: bytes) -> bytes:
        """Return the signature file for a manifest."""
        return encode_signature(self.id, self._private.sign(signed_message(manifest)))


def is_signed_by(public_key: str, message: bytes, signature: bytes) -> bool:
    """Whether the holder of this key (base64) made this signature. Raises ConfigurationError for what is no key."""
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
    except (binascii.Error, ValueError):
        raise ConfigurationError("store.trusted_keys: not the base64 of an Ed25519 public key") from None
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True
