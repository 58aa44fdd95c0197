"""What an answer is kept under, and how it is framed outside this process. Pure.

A key is 64 bytes: the answer identity (what would make the answer, from the model process) and the digest of everything
of a request that such a model can see. SHA-256 because payloads are hostile and it is the fastest sound hash of the
standard library where the processor has instructions for it: docs/decisions/0014.
"""

import hashlib
import struct
import zlib

import msgspec

DIGEST_BYTES = 32
_FRAME = struct.Struct(">4s64sII")
_MAGIC = b"hra1"

FRAME_BYTES = _FRAME.size
"""What a framed output has beside the output itself."""


def digest_of(content_type: str, payload: bytes) -> bytes:
    """Return the SHA-256 of content type and payload. The type's length goes first, so the two cannot run together."""
    kind = content_type.encode(errors="surrogateescape")
    digest = hashlib.sha256(len(kind).to_bytes(4) + kind)
    digest.update(payload)
    return digest.digest()


def frame_output(key: bytes, output: bytes) -> bytes:
    """Frame an output to be kept elsewhere: format, key, length, CRC-32 and the output."""
    return _FRAME.pack(_MAGIC, key, len(output), zlib.crc32(output)) + output


def open_frame(key: bytes, frame: bytes, max_output_bytes: int) -> bytes | None:
    """Return the output in a frame; None unless the frame is whole, of this key and format, and holds JSON text.

    The checksum is against damage, not against forgery: who may write to the store may write an answer.
    """
    if not FRAME_BYTES <= len(frame) <= FRAME_BYTES + max_output_bytes:
        return None
    magic, owner, length, checksum = _FRAME.unpack_from(frame)
    output = frame[FRAME_BYTES:]
    if (magic, owner, length, checksum) != (_MAGIC, key, len(output), zlib.crc32(output)):
        return None
    try:
        msgspec.json.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return output
