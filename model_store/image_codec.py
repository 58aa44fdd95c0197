"""JPEG and PNG bytes to pixels: the size is read from the header first, and only these two decoders are ever tried.

Promise: uint8 RGB within 1 of Pillow's own decode, upright by EXIF, alpha laid over white, 16-bit scaled down and not
clipped, CMYK converted. XMP orientation is not read.
"""

import io
import struct
import warnings
import zlib

import numpy as np
import numpy.typing as npt
from PIL import Image

from model_store.jpeg_header import read_jpeg_header, read_orientation
from model_store.png_header import check_png_is_whole, read_png_header
from schemas.errors import InvalidInputError, PayloadTooLargeError, scrub

JPEG_MAGIC = b"\xff\xd8\xff"
PNG_MAGIC = b"\x89PNG\r\n\x1a\n"
BACKGROUND = 255  # white

# Pillow names no closed set: these are what its two decoders let through on broken bytes.
_PILLOW_ERRORS = (OSError, ValueError, SyntaxError, LookupError, TypeError, OverflowError, struct.error, zlib.error)

Pixels = npt.NDArray[np.uint8]
Bytes = bytes | memoryview


def decode_image(data: Bytes, max_pixels: int, size_hint: tuple[int, int] | None = None) -> Pixels:
    """Return the picture as uint8 [height, width, 3] RGB. What the bytes are decides, not what they were declared as.

    With `size_hint` (height, width) a JPEG at least twice as large is decoded at a fraction of its size, never below
    the hint. Raises PayloadTooLargeError above `max_pixels`, before any pixel is allocated, and InvalidInputError for
    anything that is not one whole picture.
    """
    if data[:3] == JPEG_MAGIC:
        return _decode_jpeg(data, max_pixels, size_hint)
    if data[:8] == PNG_MAGIC:
        return _decode_png(data, max_pixels)
    raise InvalidInputError("neither JPEG nor PNG")


def turn_upright(pixels: Pixels, orientation: int) -> Pixels:
    """Undo an EXIF orientation 1 to 8. Returns a contiguous array."""
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)


def _check_size(width: int, height: int, max_pixels: int) -> None:
    if width <= 0 or height <= 0:
        raise InvalidInputError(f"picture of {width} by {height} pixels")
    if width * height > max_pixels:
        raise PayloadTooLargeError(f"picture of {width} by {height} pixels: at most {max_pixels} are allowed")


def _decode_jpeg(data: Bytes, max_pixels: int, size_hint: tuple[int, int] | None) -> Pixels:
    header = read_jpeg_header(data)
    _check_size(header.width, header.height, max_pixels)
    hint = size_hint
    if hint is not None and header.orientation >= 5:
        hint = (hint[1], hint[0])
    if hint is not None and (header.height < 2 * hint[0] or header.width < 2 * hint[1]):
        hint = None
    pixels = None
    if header.common and header.components in (1, 3):
        pixels = _decode_fast(data, (header.height, header.width), hint)
    if pixels is None:
        pixels = _decode_with_pillow(data, "JPEG", max_pixels, hint)[0]
    return pixels if header.orientation == 1 else turn_upright(pixels, header.orientation)


def _decode_fast(data: Bytes, size: tuple[int, int], hint: tuple[int, int] | None) -> Pixels | None:
    """Decode by libjpeg-turbo, or return None for Pillow to decide: not installed, or the file is not quite sound."""
    try:
        import simplejpeg  # noqa: PLC0415 - only workers have it
    except ImportError:
        return None
    low_height, low_width = hint or (0, 0)
    try:
        if tuple(simplejpeg.decode_jpeg_header(data)[:2]) != size:
            return None
        pixels: Pixels = simplejpeg.decode_jpeg(
            data, "RGB", fastdct=False, fastupsample=False, min_height=low_height, min_width=low_width
        )
    except ValueError:
        return None
    return pixels


def _decode_png(data: Bytes, max_pixels: int) -> Pixels:
    header = read_png_header(data)
    _check_size(header.width, header.height, max_pixels)
    check_png_is_whole(data)
    pixels, orientation = _decode_with_pillow(data, "PNG", max_pixels, None)
    return pixels if orientation == 1 else turn_upright(pixels, orientation)


def _decode_with_pillow(data: Bytes, kind: str, max_pixels: int, hint: tuple[int, int] | None) -> tuple[Pixels, int]:
    """Decode by the one named decoder; returns the pixels as stored and, for PNG, the orientation of its EXIF chunk."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data), formats=(kind,)) as image:
                _check_size(*image.size, max_pixels)  # a second header chunk may have changed it
                if hint is not None:
                    image.draft("RGB", (hint[1], hint[0]))
                image.load()
                if kind == "JPEG":
                    return _to_rgb(image), 1
                _scale_clear_value(image, read_png_header(data).depth)
                return _to_rgb(image), _png_orientation(image)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise PayloadTooLargeError(scrub(str(error), limit=200)) from None
    except _PILLOW_ERRORS as error:
        raise InvalidInputError(f"not a whole {kind} picture: {scrub(str(error), limit=200)}") from None


def _png_orientation(image: Image.Image) -> int:
    exif = image.info.get("exif")
    return read_orientation(exif.removeprefix(b"Exif\0\0")) if isinstance(exif, bytes) else 1


def _scale_clear_value(image: Image.Image, depth: int) -> None:
    """Bring the colour that stands for transparent to the 8 bits that Pillow has brought the samples to.

    It leaves that one as stored: with gray of 2 or 4 bits, and with colour of 16, of which it keeps the upper half.
    """
    clear = image.info.get("transparency")
    if image.mode == "L" and isinstance(clear, int) and depth in (2, 4):
        image.info["transparency"] = clear * 255 // (2**depth - 1)
    elif image.mode == "RGB" and isinstance(clear, tuple) and depth == 16:
        image.info["transparency"] = tuple(value >> 8 for value in clear)


def _to_rgb(image: Image.Image) -> Pixels:
    if image.mode.startswith("I") or image.mode == "F":
        return _gray16_to_rgb(image)
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        return _over_white(np.asarray(image.convert("RGBA")))
    return np.array(image.convert("RGB"))


def _gray16_to_rgb(image: Image.Image) -> Pixels:
    """Scale 0..65535 to 0..255: Pillow's own conversion clips, which would turn most of a picture white."""
    wide = np.asarray(image).astype(np.uint32)
    gray = ((wide * 255 + 32767) // 65535).astype(np.uint8)
    clear = image.info.get("transparency")
    if isinstance(clear, int):
        gray = np.where(wide == clear, np.uint8(BACKGROUND), gray)
    return np.repeat(gray[:, :, None], 3, axis=2)


def _over_white(rgba: npt.NDArray[np.uint8]) -> Pixels:
    alpha = rgba[:, :, 3:].astype(np.uint16)
    mixed = rgba[:, :, :3] * alpha + BACKGROUND * (255 - alpha)
    return ((mixed + 127) // 255).astype(np.uint8)
