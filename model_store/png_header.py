"""The size of a PNG, read from its header chunk without a decoder."""

from schemas.errors import InvalidInputError

_HEADER_BYTES = 33  # the magic and the whole IHDR chunk, its checksum included


def read_png_size(data: bytes | memoryview) -> tuple[int, int]:
    """Return width and height in pixels. Raises InvalidInputError when there is no header chunk."""
    if len(data) < _HEADER_BYTES or data[12:16] != b"IHDR":
        raise InvalidInputError("not a sound PNG: no header chunk")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
