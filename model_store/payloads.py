"""One request as a model class sees it: bytes, and the safe ways to make a model input of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from model_store.image_codec import decode_image
from model_store.json_codec import decode_json
from model_store.npy_codec import decode_npy, stack_npy
from model_store.tensor_codec import decode_tensors
from schemas.errors import InvalidInputError, InvalidRecordError
from schemas.records import JSON, NPY
from schemas.settings import LimitSettings

DEFAULT_LIMITS = LimitSettings()
_KINDS = {"b": "booleans", "c": "complex numbers", "U": "text", "O": "null, an object or a longer number"}
"""What the kinds of numpy arrays are called, for people."""


class Payload:
    """The value of one request. Built once per record, so it only stores what it is given.

    `data` may be a view of memory that is reused after the batch: keep copies, not views. Every decoder checks
    `limits` before it allocates, and raises InvalidInputError or PayloadTooLargeError for this record alone.
    """

    __slots__ = ("content_type", "data", "key", "limits", "request_id")

    def __init__(
        self,
        content_type: str,
        data: bytes | memoryview,
        key: bytes | None = None,
        request_id: str = "",
        limits: LimitSettings = DEFAULT_LIMITS,
    ) -> None:
        self.content_type = content_type
        self.data = data
        self.key = key
        self.request_id = request_id
        self.limits = limits

    def json(self) -> Any:
        """The value of a strict JSON text: duplicate keys, NaN and out-of-range numbers are refused."""
        return decode_json(bytes(self.data), self.limits.json_depth)

    def array(self) -> npt.NDArray[Any]:
        """The array of an `.npy` payload: C-contiguous, native order, bool, int, uint or float; may be read-only."""
        return decode_npy(self.data, self.limits.elements)

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """The named arrays of a safetensors payload; may be read-only. BF16 becomes float32."""
        return decode_tensors(self.data, self.limits.elements)

    def image(self, size_hint: tuple[int, int] | None = None) -> npt.NDArray[np.uint8]:
        """The picture of a JPEG or PNG payload, upright, as uint8 [height, width, 3] RGB, alpha laid over white.

        `size_hint` is the (height, width) that will be used: a much larger JPEG may come back smaller, but never below.
        """
        return decode_image(self.data, self.limits.pixels, size_hint)

    def text(self) -> str:
        """The text of a UTF-8 payload."""
        try:
            return bytes(self.data).decode()
        except UnicodeDecodeError as error:
            raise InvalidInputError(f"not UTF-8 text: {error.reason} at byte {error.start}") from None

    def numbers(self) -> npt.NDArray[np.float32]:
        """The numbers of an `.npy` or JSON payload as float32, in the shape they came in. Booleans are no numbers."""
        array = self._json_array() if self.content_type == JSON else self._npy_array()
        if array.dtype.kind not in "iuf":
            raise InvalidInputError(
                f"numbers of at most 64 bits are needed, not {_KINDS.get(array.dtype.kind, 'this')}"
            )
        with np.errstate(over="ignore"):
            return array.astype(np.float32, copy=False)

    def _json_array(self) -> npt.NDArray[Any]:
        text = bytes(self.data)
        value = decode_json(text, self.limits.json_depth)
        if b"true" in text or b"false" in text:
            # An array would silently make ones and zeros of them as soon as there is a number among them.
            raise InvalidInputError("numbers are needed: this JSON text holds true, false or a string")
        try:
            return np.asarray(value)
        except ValueError:
            raise InvalidInputError("the numbers do not form a rectangle") from None

    def _npy_array(self) -> npt.NDArray[Any]:
        try:
            return self.array()
        except InvalidInputError as error:
            if self.content_type == NPY:
                raise
            raise InvalidInputError(
                f"numbers are needed as {NPY} or {JSON}; this payload is taken as {self.content_type} and is {error}"
            ) from None


def stack_payloads(payloads: Sequence[Payload]) -> npt.NDArray[Any] | None:
    """Return one array whose first axis is the records when all are `.npy` with one and the same header; else None.

    The fast way of `preprocess_batch`; never raises, so the slow way can say which record is at fault.
    """
    if not payloads or any(payload.content_type != NPY for payload in payloads):
        return None
    try:
        return stack_npy([payload.data for payload in payloads], payloads[0].limits.elements)
    except InvalidRecordError:
        return None
