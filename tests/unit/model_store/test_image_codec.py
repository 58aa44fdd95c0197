import io
import re
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from model_store.image_codec import decode_image, turn_upright
from model_store.jpeg_header import read_jpeg_header, read_orientation
from schemas.errors import InvalidInputError, InvalidRecordError, PayloadTooLargeError
from tests.unit.model_store.builders import png_chunk, png_header

LIMIT = 25_000_000


def picture(width: int = 61, height: int = 43, mode: str = "RGB") -> Image.Image:
    y, x = np.mgrid[0:height, 0:width]
    planes = [x * 255 / max(width - 1, 1), y * 255 / max(height - 1, 1), (x + y) % 64 * 4]
    rgb = Image.fromarray(np.stack(planes, 2).astype(np.uint8))
    return rgb if mode == "RGB" else rgb.convert(mode)


def encoded(image: Image.Image, kind: str = "JPEG", **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def reference(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"), np.int16)


def difference(left: np.ndarray, right: np.ndarray) -> int:
    assert left.shape == right.shape
    return int(np.abs(left.astype(np.int16) - right.astype(np.int16)).max())


@pytest.mark.parametrize(
    "data",
    [
        encoded(picture(), quality=90),
        encoded(picture(), quality=90, progressive=True),
        encoded(picture(), quality=90, subsampling=0),
        encoded(picture(), quality=40, subsampling=1),
        encoded(picture(), quality=40, subsampling=2, optimize=True),
        encoded(picture(mode="L")),
        encoded(picture(mode="CMYK")),
        encoded(picture(), keep_rgb=True),
        encoded(picture(1, 1)),
        encoded(picture(1, 4000)),
        encoded(picture(), "PNG"),
        encoded(picture(mode="L"), "PNG"),
        encoded(picture(mode="P"), "PNG"),
        encoded(picture(mode="1"), "PNG"),
        encoded(picture(1, 1), "PNG"),
    ],
)
def test_pixels_are_within_one_of_pillows(data: bytes) -> None:
    pixels = decode_image(data, LIMIT)

    assert pixels.dtype == np.uint8
    assert difference(pixels, reference(data)) <= 1


def test_ycck_follows_its_adobe_marker() -> None:
    data = bytearray(encoded(picture(mode="CMYK")))
    data[data.index(b"Adobe") + 11] = 2

    assert difference(decode_image(bytes(data), LIMIT), reference(bytes(data))) <= 1


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_exif_turns_are_undone(orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(picture(), kind, exif=exif)
    turned = ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")

    assert difference(decode_image(data, LIMIT), np.asarray(turned)) <= 1


def test_a_turn_back_and_forth_is_nothing() -> None:
    pixels = np.asarray(picture())
    back = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}

    for orientation, inverse in back.items():
        np.testing.assert_array_equal(turn_upright(turn_upright(pixels, orientation), inverse), pixels)


def test_alpha_is_laid_over_white() -> None:
    rgba = picture(mode="RGBA")
    rgba.putalpha(Image.fromarray(np.tile(np.arange(61, dtype=np.uint8) * 4, (43, 1))))
    expected = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")

    assert difference(decode_image(encoded(rgba, "PNG"), LIMIT), np.asarray(expected)) <= 1
    clear = decode_image(encoded(Image.new("LA", (2, 2), (0, 0)), "PNG"), LIMIT)
    assert clear.min() == 255


def test_a_transparent_palette_entry_is_white() -> None:
    image = picture(mode="P")
    data = encoded(image, "PNG", transparency=int(np.asarray(image)[0, 0]))

    assert decode_image(data, LIMIT)[0, 0].tolist() == [255, 255, 255]


def flat_png(depth: int, colour: int, row: bytes, clear: bytes) -> bytes:
    """A picture two pixels wide and one high, of which `clear` is the transparent colour."""
    body = png_chunk(b"tRNS", clear) + png_chunk(b"IDAT", zlib.compress(b"\0" + row)) + png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + png_header(2, 1, depth, colour) + body


@pytest.mark.parametrize(
    ("depth", "colour", "row", "clear"),
    [
        (1, 0, b"\x80", b"\0\1"),
        (2, 0, b"\x60", b"\0\1"),
        (4, 0, b"\x50", b"\0\5"),
        (8, 0, b"\x50\0", b"\0\x50"),
        (16, 0, b"\x50\7\0\0", b"\x50\7"),
        (8, 2, b"\1\2\3\0\0\0", b"\0\1\0\2\0\3"),
        (16, 2, b"\1\0\2\0\3\0" + bytes(6), b"\1\0\2\0\3\0"),
    ],
)
def test_the_colour_that_stands_for_transparent_is_white_at_every_depth(
    depth: int, colour: int, row: bytes, clear: bytes
) -> None:
    pixels = decode_image(flat_png(depth, colour, row, clear), LIMIT)

    assert pixels[0, 0].tolist() == [255, 255, 255]
    assert pixels[0, 1].max() < 255


def test_sixteen_bits_are_scaled_and_not_clipped() -> None:
    values = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)

    pixels = decode_image(encoded(Image.fromarray(values), "PNG"), LIMIT)

    assert difference(pixels[:, :, 0], np.round(values / 257)) <= 1


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_truncated_picture_is_refused(kind: str) -> None:
    data = encoded(picture(200, 200), kind)

    for cut in range(20):
        with pytest.raises(InvalidInputError):
            decode_image(data[: len(data) * cut // 21], LIMIT)


@pytest.mark.parametrize("missing", range(1, 24))
def test_a_png_without_its_end_is_refused_though_every_pixel_is_there(missing: int) -> None:
    data = encoded(picture(), "PNG")

    with pytest.raises(InvalidInputError, match="end"):
        decode_image(data[:-missing], LIMIT)
    assert decode_image(data + b"\0" * missing, LIMIT).shape == (43, 61, 3)


def test_a_bomb_is_refused_from_its_header() -> None:
    data = b"\x89PNG\r\n\x1a\n" + png_header(30_000, 30_000) + png_chunk(b"IDAT", b"")

    with pytest.raises(PayloadTooLargeError, match="30000 by 30000"):
        decode_image(data, LIMIT)
    with pytest.raises(PayloadTooLargeError):
        decode_image(encoded(picture(100, 100)), 9_999)


def test_a_second_header_does_not_get_past_the_limit() -> None:
    data = b"\x89PNG\r\n\x1a\n" + png_header(1, 1) + png_header(9000, 9000) + png_chunk(b"IDAT", b"")

    with pytest.raises(InvalidRecordError):
        decode_image(data, LIMIT)


def test_no_pixels_at_all_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="0 by 0"):
        decode_image(b"\x89PNG\r\n\x1a\n" + png_header(0, 0) + png_chunk(b"IEND", b""), LIMIT)


def test_a_progressive_file_with_thousands_of_scans_is_refused() -> None:
    data = encoded(picture(), progressive=True)

    with pytest.raises(InvalidInputError, match="scans"):
        decode_image(data + b"\xff\xda\x00\x00" * 5000, LIMIT)


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "TIFF", "BMP", "ICO", "PPM", "EPS", "PDF"])
def test_only_two_formats_are_ever_tried(kind: str) -> None:
    with pytest.raises(InvalidInputError, match="neither JPEG nor PNG"):
        decode_image(encoded(picture(), kind), LIMIT)


@pytest.mark.parametrize("data", [b"", b"\xff", b"<svg/>", b"SIMPLE  = T", b"\xff\xd8\xff", b"\xff\xd8\xff\xd9"])
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidInputError):
        decode_image(data, LIMIT)


@given(st.binary(max_size=120), st.integers(0, 600), st.integers(0, 255))
def test_no_damage_raises_anything_but_a_refusal_of_the_record(tail: bytes, position: int, value: int) -> None:
    jpeg, png = encoded(picture(24, 24)), encoded(picture(24, 24), "PNG")
    damaged = [bytearray(jpeg), bytearray(png)]
    for data in damaged:
        data[position % len(data)] = value
    messages = []
    for candidate in (b"\xff\xd8\xff" + tail, b"\x89PNG\r\n\x1a\n" + tail, *map(bytes, damaged)):
        try:
            decode_image(candidate, 10_000)
        except InvalidRecordError as error:
            messages.append(str(error))
    assert not re.search("0x[0-9a-f]", " ".join(messages))


def test_a_large_jpeg_is_decoded_at_a_fraction_but_never_below_the_hint() -> None:
    data = encoded(picture(1000, 800))

    assert decode_image(data, LIMIT, (100, 100)).shape == (100, 125, 3)
    assert decode_image(data, LIMIT, (500, 500)).shape == (800, 1000, 3)


def test_the_header_walk_finds_size_and_orientation() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6

    header = read_jpeg_header(encoded(picture(), exif=exif))

    assert header == (61, 43, 3, 6, True)


@pytest.mark.parametrize("tiff", [b"", b"II*\0", b"MM\0*\xff\xff\xff\xff", b"II*\0\x08\0\0\0\xff\xff", b"no"])
def test_a_broken_exif_block_turns_nothing(tiff: bytes) -> None:
    assert read_orientation(tiff) == 1
