"""Payloads and their content types: JSON values, arrays and image files."""

import io
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from schemas.content_sniffing import sniff_content_type
from schemas.errors import InvalidInputError
from schemas.records import BYTES

if TYPE_CHECKING:
    import numpy


def json_payload(value: object) -> bytes:
    """Encode a JSON value. Raises InvalidInputError for what JSON cannot say, NaN and infinity included."""
    try:
        encoded = msgspec.json.encode(value)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInputError(f"not a JSON value: {error}") from None
    # The encoder writes null for a number that is not finite: only then is there something to look for.
    if b"null" in encoded and _holds_non_finite(value):
        raise InvalidInputError("not a JSON value: NaN or infinity; send null, or an array as .npy")
    return encoded


def _holds_non_finite(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Mapping):
        return any(map(_holds_non_finite, value.values()))
    return isinstance(value, list | tuple | set | frozenset) and any(map(_holds_non_finite, value))


def array_payload(array: "numpy.ndarray[Any, Any]") -> bytes:
    """Encode an array in the .npy format. Raises InvalidInputError for arrays of objects, which would need pickle."""
    import numpy  # noqa: PLC0415 - only this payload needs it

    if array.dtype.hasobject:
        raise InvalidInputError(f"array of dtype {array.dtype}: only plain numbers, text and booleans can be sent")
    buffer = io.BytesIO()
    numpy.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def file_payload(path: Path, *, limit: int) -> tuple[bytes, str]:
    """Read a file and name its content type from its first bytes. Raises InvalidInputError; never reads beyond `limit`.

    The size is that of the bytes that were read, so a file that grows meanwhile cannot pass.
    """
    try:
        with path.open("rb") as file:
            payload = file.read(limit + 1)
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror}") from None
    if len(payload) > limit:
        raise InvalidInputError(f"{path}: larger than {limit} bytes")
    return payload, sniff_content_type(payload)


def image_file_payload(path: Path, *, limit: int) -> tuple[bytes, str]:
    """Read a JPEG or PNG file. Raises InvalidInputError when its first bytes say that it is neither."""
    payload, content_type = file_payload(path, limit=limit)
    if not content_type.startswith("image/"):
        kind = "neither JPEG nor PNG" if content_type == BYTES else f"{content_type}, neither JPEG nor PNG"
        raise InvalidInputError(f"{path}: {kind}")
    return payload, content_type
