"""Model answers to JSON bytes, one per record, with a stated policy for numbers that JSON cannot hold."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from model_store.outcomes import RecordError, refuse
from schemas.errors import InvalidOutputError
from schemas.records import Stage

NonFinite = Literal["reject", "allow"]


def encode_answers(answers: Any, policy: NonFinite) -> list[bytes | RecordError]:
    """Encode each answer by itself, in order.

    A NaN or infinity is refused under `reject`; under `allow` it becomes null, and the answer is wrapped as
    `{"non_finite": true, "output": …}` so that no reader takes it for an ordinary one. What cannot be JSON is refused.
    """
    if hasattr(answers, "numpy"):
        answers = answers.numpy()
    if isinstance(answers, np.ndarray):
        return _encode_rows(answers, policy)
    return [_encode_one(answer, policy) for answer in answers]


def _encode_rows(rows: np.ndarray[Any, Any], policy: NonFinite) -> list[bytes | RecordError]:
    values = rows.tolist()
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        return [_encode_one(value, policy) for value in values]
    encode = _ENCODER.encode
    return [encode(value) for value in values]


def _encode_one(answer: Any, policy: NonFinite) -> bytes | RecordError:
    try:
        data = _ENCODER.encode(answer)
        # The encoder writes NaN as null, so only an answer that shows a null needs the slow look.
        if b"null" not in data or not _has_non_finite(answer):
            return data
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        return refuse(Stage.POSTPROCESS, InvalidOutputError(str(error)))
    if policy == "allow":
        return b'{"non_finite":true,"output":' + data + b"}"
    return refuse(Stage.POSTPROCESS, InvalidOutputError("the model's answer is not finite (NaN or infinity)"))


def _to_plain(value: Any) -> Any:
    """Arrays, tensors and their scalars, by the method that all of them share."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"the model's answer holds a {type(value).__name__}, which JSON cannot")


def _has_non_finite(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(_has_non_finite(part) for part in value.values())
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return any(_has_non_finite(part) for part in value)
    return _has_non_finite(value.tolist()) if hasattr(value, "tolist") else False


_ENCODER = msgspec.json.Encoder(enc_hook=_to_plain)
