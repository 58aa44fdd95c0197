"""Who vouches for a version: a signature over the very bytes of its manifest, which names every file by its SHA-256.

Checked where a version is resolved, before its manifest is parsed and before any of its files is opened (record 0021).
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import msgspec

from schemas.errors import BadSignatureError, UnknownKeyError, UnsignedVersionError
from schemas.settings import StoreSettings

MAX_SIGNATURE_BYTES = 4096
_SIGNATURE_BYTES = 64
_PURPOSE = b"headrace model manifest, format 1\n"


class SignatureFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What `manifest.sig` holds: which key, and its Ed25519 signature in base64."""

    key: str
    signature: str
    format: int = 1


_decoder = msgspec.json.Decoder(SignatureFile)


def signed_message(manifest: bytes) -> bytes:
    """What is signed: the manifest as stored, behind words that keep the signature from meaning anything else."""
    return _PURPOSE + manifest


def encode_signature(key: str, signature: bytes) -> bytes:
    """Write a signature file."""
    text = base64.b64encode(signature).decode()
    return msgspec.json.format(msgspec.json.encode(SignatureFile(key, text))) + b"\n"


@dataclass(frozen=True)
class SignaturePolicy:
    """Whether versions must be signed, and by which keys: id to Ed25519 public key in base64."""

    required: bool = False
    trusted_keys: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: StoreSettings) -> Self:
        """The policy that the settings state."""
        return cls(settings.require_signature, settings.trusted_keys)

    def check(self, shown: str, manifest: bytes, signature: bytes | None) -> None:
        """Check a manifest against the content of its signature file, None for no such file.

        Raises UnsignedVersionError, UnknownKeyError or BadSignatureError; nothing where none is required.
        """
        if not self.required:
            return
        if signature is None:
            raise UnsignedVersionError(
                f"{shown} is not signed and store.require_signature is set; `headrace models sign` signs a version"
            )
        key, raw = _read_signature(shown, signature)
        if key not in self.trusted_keys:
            trusted = ", ".join(sorted(self.trusted_keys)) or "none"
            raise UnknownKeyError(f"{shown} is signed by key {key[:64]!r}; store.trusted_keys has {trusted}")
        from model_store.signing_keys import is_signed_by  # noqa: PLC0415 - loaded only where signatures are required

        if not is_signed_by(self.trusted_keys[key], signed_message(manifest), raw):
            raise BadSignatureError(
                f"{shown}: the signature is not of this manifest by key {key!r}:"
                " the manifest was changed after it was signed, or the signature is of another version or key"
            )


NO_SIGNATURE = SignaturePolicy()


def _read_signature(shown: str, data: bytes) -> tuple[str, bytes]:
    try:
        found = _decoder.decode(data)
        raw = base64.b64decode(found.signature, validate=True)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        raise BadSignatureError(f"{shown}: its signature file is not one") from None
    if found.format != 1 or len(raw) != _SIGNATURE_BYTES:
        raise BadSignatureError(f"{shown}: its signature file is not of format 1 with {_SIGNATURE_BYTES} bytes")
    return found.key, raw
