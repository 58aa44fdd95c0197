"""The part of a JPEG before its pixels: size, components and orientation, read without a decoder and bounded."""

from typing import Literal, NamedTuple

from schemas.errors import InvalidInputError

MAX_SEGMENTS = 1024
MAX_SCANS = 100
_FRAMES = frozenset({0xC0, 0xC1, 0xC2})  # baseline, extended, progressive: what the fast decoder takes
_OTHER_FRAMES = frozenset({0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})
_ORIENTATION = 0x0112


class JpegHeader(NamedTuple):
    """Size in pixels, number of components, EXIF orientation (1 to 8), and whether the coding is a common one."""

    width: int
    height: int
    components: int
    orientation: int
    common: bool


def read_jpeg_header(data: bytes | memoryview) -> JpegHeader:
    """Walk the segments up to the frame header and the first scan. Raises InvalidInputError when there is none."""
    position, orientation = 2, 1
    frame: tuple[int, int, int, int] | None = None
    for _ in range(MAX_SEGMENTS):
        if len(data) < position + 4 or data[position] != 0xFF:
            break
        marker = data[position + 1]
        if marker == 0xFF:  # a fill byte
            position += 1
            continue
        if marker == 0xDA:
            return _finish(data, frame, orientation)
        size = data[position + 2] << 8 | data[position + 3]
        body = position + 4
        if marker in _FRAMES or marker in _OTHER_FRAMES:
            if frame is not None or len(data) < body + 6:
                break
            height, width = data[body + 1] << 8 | data[body + 2], data[body + 3] << 8 | data[body + 4]
            frame = (width, height, data[body + 5], marker)
        elif marker == 0xE1 and data[body : body + 6] == b"Exif\0\0":
            orientation = read_orientation(bytes(data[body + 6 : position + 2 + size]))
        position += 2 + size
    raise InvalidInputError("not a sound JPEG: no single frame header before the first scan")


def _finish(data: bytes | memoryview, frame: tuple[int, int, int, int] | None, orientation: int) -> JpegHeader:
    if frame is None:
        raise InvalidInputError("not a sound JPEG: a scan before the frame header")
    width, height, components, marker = frame
    # A progressive file of a few kilobytes can ask for thousands of passes over every pixel.
    if marker not in (0xC0, 0xC1) and bytes(data).count(b"\xff\xda") > MAX_SCANS:
        raise InvalidInputError(f"JPEG has more than {MAX_SCANS} scans")
    return JpegHeader(width, height, components, orientation, marker in _FRAMES)


def read_orientation(tiff: bytes) -> int:
    """Return the orientation 1 to 8 of an EXIF block without its `Exif` mark; 1 when there is none or it is broken."""
    if tiff[:4] not in (b"II*\0", b"MM\0*"):
        return 1
    endian: Literal["little", "big"] = "little" if tiff[:2] == b"II" else "big"
    start = int.from_bytes(tiff[4:8], endian)
    count = int.from_bytes(tiff[start : start + 2], endian)
    for position in range(start + 2, min(start + 2 + 12 * count, len(tiff) - 11), 12):
        entry = tiff[position : position + 12]
        if int.from_bytes(entry[:2], endian) == _ORIENTATION:
            value = int.from_bytes(entry[8:10], endian)
            return value if 1 <= value <= 8 else 1
    return 1
