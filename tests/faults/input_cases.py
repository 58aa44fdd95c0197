"""What a bad record can look like, and what must become of it; and what is odd, but sound."""

import io
import struct
import zlib
from typing import Any

import numpy as np
from PIL import Image

from schemas.headers import ERROR_PREFIX
from schemas.records import JPEG, JSON, NPY, PNG, SAFETENSORS, TEXT, Stage
from schemas.settings import LimitSettings
from tests.faults.exchange import Raw

LIMITS = LimitSettings(payload_bytes=1 << 20, result_bytes=64 << 10, key_bytes=16 << 10, header_bytes=16 << 10)
CANARY = b"cAnArY-7f3a"


def typed(content_type: str, value: bytes, *more: tuple[str, bytes | str | None]) -> Raw:
    return Raw(value, [("content-type", content_type.encode()), *more])


def number(x: float) -> Raw:
    return Raw(b'{"x": %g}' % x)


# -- payloads ----------------------------------------------------------------------------------------------------------


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def plain(colour: tuple[int, int, int], size: tuple[int, int] = (16, 16)) -> Image.Image:
    return Image.new("RGB", size, colour)


def png_bomb(width: int = 10_000, height: int = 10_000) -> bytes:
    """A sound header of 100 megapixels, and hardly any data."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


def npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def npy_claiming(header: str, data: bytes) -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def tensors(header: bytes, data: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + data


SOUND_TENSORS = tensors(b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', np.array([1, 2], "<f4").tobytes())
OVERLAPPING = tensors(
    b'{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"y":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}',
    bytes(12),
)
SOUND_JPEG = encoded(plain((200, 40, 90)), "JPEG", quality=95)
FUTURE = str(9_223_372_036_854_775_808)

# -- what is refused: name, record, stage, code, a part of the reason --------------------------------------------------

REFUSED: list[tuple[str, Raw, Stage, str, str]] = [
    ("empty value", Raw(b""), Stage.VALIDATE, "invalid_input", "empty value"),
    ("random bytes", Raw(b"\xfe" + CANARY + bytes(range(256))), Stage.PREPROCESS, "invalid_input", "octet-stream"),
    (
        "wrong content type",
        typed(JPEG, b'{"x": 1}' + CANARY),
        Stage.PREPROCESS,
        "invalid_input",
        "neither JPEG nor PNG",
    ),
    ("unknown content type", typed("video/mp4", b"xx"), Stage.DECODE, "envelope", "video/mp4"),
    *[
        (
            f"schema version {version}",
            typed(JSON, b'{"x": 1}', ("ce_specversion", version)),
            Stage.DECODE,
            "envelope",
            "is not supported",
        )
        for version in ("2.0", "0", "-1", "text", FUTURE, "", "1.x", "\u0661.0")
    ],
    ("header value not UTF-8", Raw(b'{"x": 1}', [("ce_id", b"\xff\xfe")]), Stage.DECODE, "envelope", "not UTF-8"),
    ("content type not UTF-8", Raw(b'{"x": 1}', [("content-type", b"\xff")]), Stage.DECODE, "envelope", "not UTF-8"),
    ("deadline that is none", typed(JSON, b'{"x": 1}', ("ce_deadline", "soon")), Stage.DECODE, "envelope", "'soon'"),
    (
        "reference payload",
        typed(JSON, b"1", ("ce_dataref", "file:///etc/shadow")),
        Stage.DECODE,
        "envelope",
        "switched off",
    ),
    ("0-byte JPEG", typed(JPEG, b""), Stage.VALIDATE, "invalid_input", "empty value"),
    *[
        (
            f"JPEG cut at {part} of 8",
            typed(JPEG, SOUND_JPEG[: len(SOUND_JPEG) * part // 8]),
            Stage.PREPROCESS,
            "invalid_input",
            "",
        )
        for part in range(1, 8)
    ],
    ("PNG bomb", typed(PNG, png_bomb()), Stage.PREPROCESS, "too_large", "10000 by 10000"),
    ("PNG without size", typed(PNG, png_bomb(0, 0)), Stage.PREPROCESS, "invalid_input", "0 by 0"),
    ("PNG without data", typed(PNG, png_bomb(64, 64)), Stage.PREPROCESS, "invalid_input", "not a whole PNG"),
    ("GIF as PNG", typed(PNG, encoded(plain((1, 2, 3)), "GIF")), Stage.PREPROCESS, "invalid_input", "neither"),
    ("malformed JSON", typed(JSON, b'{"x": 1,' + CANARY), Stage.PREPROCESS, "invalid_input", "not valid JSON"),
    ("JSON not UTF-8", typed(JSON, b'{"x": 1, "y": "\xff"}'), Stage.PREPROCESS, "invalid_input", "not valid JSON"),
    ("deep JSON", typed(JSON, b'{"x":' * 10_000 + b"1" + b"}" * 10_000), Stage.PREPROCESS, "too_large", ""),
    ("deep JSON list", typed(JSON, b"[" * 100_000), Stage.PREPROCESS, "too_large", ""),
    ("JSON NaN", typed(JSON, b'{"x": NaN}'), Stage.PREPROCESS, "invalid_input", "not valid JSON"),
    ("JSON 1e400", typed(JSON, b'{"x": 1e400}'), Stage.PREPROCESS, "invalid_input", ""),
    ("JSON key twice", typed(JSON, b'{"x": 1, "x": "' + CANARY + b'"}'), Stage.PREPROCESS, "invalid_input", "twice"),
    ("JSON of 1 MB digits", typed(JSON, b'{"x": ' + b"9" * 900_000 + b"}"), Stage.PREPROCESS, "invalid_input", ""),
    ("missing field", typed(JSON, b'{"z": "' + CANARY + b'"}'), Stage.PREPROCESS, "model_failure", "grow"),
    ("wrong shape of JSON", typed(JSON, b"[1, 2]"), Stage.PREPROCESS, "model_failure", ""),
    ("text not UTF-8", typed(TEXT, CANARY + b"\xff\xfe"), Stage.PREPROCESS, "invalid_input", "not UTF-8"),
    (
        "npy with a lying shape",
        typed(NPY, npy_claiming("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000,), }", bytes(16))),
        Stage.PREPROCESS,
        "invalid_input",
        "",
    ),
    (
        "npy with 10^18 elements",
        typed(NPY, npy_claiming("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000000000), }", b"")),
        Stage.PREPROCESS,
        "too_large",
        "",
    ),
    (
        "npy of objects",
        typed(
            NPY, npy_claiming("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"cos\nsystem\n." + CANARY)
        ),
        Stage.PREPROCESS,
        "invalid_input",
        "",
    ),
    ("npy cut short", typed(NPY, npy(np.ones(8, "f4"))[:-3]), Stage.PREPROCESS, "invalid_input", ""),
    ("npy with NaN", typed(NPY, npy(np.array([1, np.nan], "f4"))), Stage.POSTPROCESS, "invalid_output", "not finite"),
    ("npy with infinity", typed(NPY, npy(np.array([np.inf], "f4"))), Stage.POSTPROCESS, "invalid_output", "not finite"),
    ("safetensors that overlap", typed(SAFETENSORS, OVERLAPPING), Stage.PREPROCESS, "invalid_input", "overlaps"),
    ("safetensors cut short", typed(SAFETENSORS, SOUND_TENSORS[:-1]), Stage.PREPROCESS, "invalid_input", ""),
    (
        "safetensors header of 2^62",
        typed(SAFETENSORS, (1 << 62).to_bytes(8, "little") + b"{}"),
        Stage.PREPROCESS,
        "invalid_input",
        "header length",
    ),
    ("key of 1 MB", Raw(b'{"x": 1}', key=bytes(1_000_000)), Stage.VALIDATE, "too_large", "limits.key_bytes"),
    ("large header", Raw(b'{"x": 1}', [("h", bytes(20_000))]), Stage.VALIDATE, "too_large", "limits.header_bytes"),
    ("header flood", Raw(b'{"x": 1}', [("h", b"")] * 20_000), Stage.VALIDATE, "too_large", "limits.header_bytes"),
    (
        "nameless header flood",
        Raw(b'{"x": 1}', [("", None)] * 60_000),
        Stage.VALIDATE,
        "too_large",
        "limits.header_bytes",
    ),
    (
        "reserved header flood",
        Raw(b'{"x": 1}', [(ERROR_PREFIX, b"")] * 3000),
        Stage.VALIDATE,
        "too_large",
        "limits.header_bytes",
    ),
    ("one byte too many", typed(TEXT, b"a" * (LIMITS.payload_bytes + 1)), Stage.VALIDATE, "too_large", "payload_bytes"),
    ("result too large", Raw(b'{"grow": 70000}'), Stage.POSTPROCESS, "invalid_output", "larger than"),
    ("dead letter too large to carry its payload", typed(JPEG, b"x" * 100_000), Stage.PREPROCESS, "invalid_input", ""),
]

# -- what is answered: name, record, answer ----------------------------------------------------------------------------


def turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encoded(plain((10, 200, 30), (24, 8)), "JPEG", quality=100, exif=exif)


ANSWERED: list[tuple[str, Raw, Any]] = [
    ("schema version 1.7", typed(JSON, b'{"x": 3}', ("ce_specversion", "1.7")), 3.0),
    ("schema version 1", typed(JSON, b'{"x": 3}', ("ce_specversion", "1")), 3.0),
    ("content type with parameters", typed("application/json; charset=utf-8", b'{"x": 4}'), 4.0),
    ("no header, no key", Raw(b'{"x": 5}', key=None), 5.0),
    ("JSON with blanks and no header", Raw(b'\n {"x": 6}\r\n'), 6.0),
    ("unknown header, not UTF-8", Raw(b'{"x": 7}', [("other", b"\xff\xfe"), ("null", None)]), 7.0),
    ("empty id", Raw(b'{"x": 8}', [("ce_id", b"")]), 8.0),
    ("largest payload", typed(TEXT, b"a" * LIMITS.payload_bytes), float(LIMITS.payload_bytes)),
    ("one byte less", typed(TEXT, b"a" * (LIMITS.payload_bytes - 1)), float(LIMITS.payload_bytes - 1)),
    ("one byte", typed(TEXT, b"a"), 1.0),
    ("largest key", Raw(b'{"x": 9}', key=bytes(LIMITS.key_bytes)), 9.0),
    (
        "largest result",
        Raw(b'{"grow": %d}' % (LIMITS.result_bytes - 2), key=bytes(LIMITS.key_bytes)),
        "y" * (LIMITS.result_bytes - 2),
    ),
    ("npy", typed(NPY, npy(np.arange(4, dtype="f4"))), 6.0),
    ("npy in Fortran order and big-endian", typed(NPY, npy(np.asfortranarray(np.ones((2, 3), ">f8")))), 6.0),
    ("safetensors", typed(SAFETENSORS, SOUND_TENSORS), 3.0),
    ("JPEG without header", Raw(SOUND_JPEG), (200, 40, 90)),
    ("PNG as JPEG", typed(JPEG, encoded(plain((1, 2, 3)), "PNG")), (1, 2, 3)),
    ("CMYK", typed(JPEG, encoded(plain((200, 40, 90)).convert("CMYK"), "JPEG", quality=95)), (200, 40, 90)),
    ("grey JPEG", typed(JPEG, encoded(Image.new("L", (9, 9), 77), "JPEG", quality=95)), (77, 77, 77)),
    ("16-bit", typed(PNG, encoded(Image.fromarray(np.full((4, 4), 257 * 99, np.uint16)), "PNG")), (99, 99, 99)),
    ("palette", typed(PNG, encoded(plain((9, 8, 7)).quantize(4), "PNG")), (9, 8, 7)),
    ("1-bit", typed(PNG, encoded(Image.new("1", (5, 5), 1), "PNG")), (255, 255, 255)),
    ("alpha, clear", typed(PNG, encoded(Image.new("RGBA", (5, 5), (9, 9, 9, 0)), "PNG")), (255, 255, 255)),
    ("alpha, half", typed(PNG, encoded(Image.new("RGBA", (5, 5), (0, 100, 200, 51)), "PNG")), (204, 224, 244)),
    ("grey with alpha", typed(PNG, encoded(Image.new("LA", (5, 5), (0, 51)), "PNG")), (204, 204, 204)),
    ("1 by 1", typed(PNG, encoded(plain((4, 5, 6), (1, 1)), "PNG")), (4, 5, 6)),
    ("1 by 60000", typed(PNG, encoded(plain((4, 5, 6), (1, 60_000)), "PNG")), (4, 5, 6)),
    *[(f"turned {turn}", typed(JPEG, turned(turn)), (10, 200, 30)) for turn in range(1, 9)],
]
