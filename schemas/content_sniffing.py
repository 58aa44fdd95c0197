"""The content type of a payload that declares none."""

from schemas.records import BYTES, JPEG, JSON, NPY, PNG

_JSON_STARTS = frozenset(bytes((byte,)) for byte in b'{["-0123456789tfn')


def sniff_content_type(payload: bytes | None) -> str:
    """Name the content type of a payload that declares none, from its first bytes only.

    JPEG, PNG and .npy have magic numbers; what starts like a JSON value is JSON; all else is opaque bytes.
    """
    if not payload:
        return BYTES
    first = payload[0]
    if first == 0x7B:  # "{", by far the most common start of a payload without a declared type
        return JSON
    if first == 0x93 and payload.startswith(b"\x93NUMPY"):
        return NPY
    if first == 0xFF and payload.startswith(b"\xff\xd8\xff"):
        return JPEG
    if first == 0x89 and payload.startswith(b"\x89PNG\r\n\x1a\n"):
        return PNG
    return JSON if payload[:64].lstrip()[:1] in _JSON_STARTS else BYTES
