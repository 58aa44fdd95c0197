"""What must be known of a PNG before and after a decoder: its size and depth, and whether its chunks are all there."""

from dataclasses import dataclass

from schemas.errors import InvalidInputError

_MAGIC_BYTES = 8
_HEADER_BYTES = 33  # the magic and the whole IHDR chunk, its checksum included
_CHUNK_OVERHEAD_BYTES = 12  # length, kind and checksum


@dataclass(frozen=True, slots=True)
class PngHeader:
    """Width and height in pixels, and bits per sample: 1, 2, 4, 8 or 16."""

    width: int
    height: int
    depth: int


def read_png_header(data: bytes | memoryview) -> PngHeader:
    """Read the header chunk. Raises InvalidInputError when there is none."""
    if len(data) < _HEADER_BYTES or data[12:16] != b"IHDR":
        raise InvalidInputError("not a sound PNG: no header chunk")
    return PngHeader(int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big"), data[24])


def check_png_is_whole(data: bytes | memoryview) -> None:
    """Raise InvalidInputError unless every chunk is there up to the end mark; a decoder stops at the last pixel."""
    position = _MAGIC_BYTES
    while position + _CHUNK_OVERHEAD_BYTES <= len(data):
        kind = data[position + 4 : position + 8]
        position += _CHUNK_OVERHEAD_BYTES + int.from_bytes(data[position : position + 4], "big")
        if kind == b"IEND" and position <= len(data):
            return
    raise InvalidInputError("not a whole PNG picture: it ends before its end mark")
