"""How large a record will be for the broker, known before anything is sent."""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.errors import PayloadTooLargeError
from schemas.settings import LimitSettings

BATCH_OVERHEAD_BYTES = 61
_RECORD_OVERHEAD_BYTES = 36
_LENGTH_BYTES = 5


def count_header_bytes(headers: Sequence[tuple[str, bytes]]) -> int:
    """Count the bytes of all header names and values, lengths included (an upper bound)."""
    return sum(len(name.encode()) + len(value) + 2 * _LENGTH_BYTES for name, value in headers)


def count_record_bytes(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]]) -> int:
    """Count what the broker compares with `max.message.bytes` when the record travels alone (an upper bound)."""
    body = len(key or b"") + len(value or b"") + count_header_bytes(headers)
    return BATCH_OVERHEAD_BYTES + _RECORD_OVERHEAD_BYTES + body


@dataclass(frozen=True)
class SizeLimits:
    """What a publisher may send; `message_bytes` is the topic's `max.message.bytes`, None while it is not known."""

    payload_bytes: int = LimitSettings().payload_bytes
    key_bytes: int = LimitSettings().key_bytes
    header_bytes: int = LimitSettings().header_bytes
    message_bytes: int | None = None

    @classmethod
    def of(cls, limits: LimitSettings, message_bytes: int | None = None) -> "SizeLimits":
        """Take the limits of the settings."""
        return cls(limits.payload_bytes, limits.key_bytes, limits.header_bytes, message_bytes)

    def check(self, what: str, key: bytes | None, payload: bytes | None, headers: Sequence[tuple[str, bytes]]) -> None:
        """Raise PayloadTooLargeError that names the part, its size and the limit; `what` names the record."""
        header_bytes = count_header_bytes(headers)
        parts = (
            ("payload", len(payload or b""), self.payload_bytes, "limits.payload_bytes"),
            ("key", len(key or b""), self.key_bytes, "limits.key_bytes"),
            ("headers", header_bytes, self.header_bytes, "limits.header_bytes"),
        )
        for part, size, limit, setting in parts:
            if size > limit:
                raise PayloadTooLargeError(f"{what}: {part} of {size} bytes; {setting} allows {limit}")
        total = count_record_bytes(key, payload, headers)
        if self.message_bytes is not None and total > self.message_bytes:
            raise PayloadTooLargeError(
                f"{what}: {total} bytes with key, headers and overhead; max.message.bytes of the topic allows"
                f" {self.message_bytes}"
            )
