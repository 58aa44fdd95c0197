"""The golden sample of a version: run through the loaded model and compared with the answer that was published."""

import math
from collections.abc import Iterator
from typing import Any

from model_store.json_codec import decode_json
from model_store.loaded_model import LoadedModel
from model_store.outcomes import ModelStageError, RecordError
from model_store.payloads import Payload
from schemas.errors import GoldenSampleError
from schemas.golden import GoldenSample
from schemas.settings import LimitSettings

_SHOWN_CHARS = 80
_MAX_DEPTH = 500


def check_golden(model: LoadedModel, sample: GoldenSample, limits: LimitSettings) -> None:
    """Raise GoldenSampleError, naming the first difference, unless the model gives the sample's answer."""
    payload = Payload(sample.content_type, sample.payload_bytes(), None, "golden", limits)
    try:
        answer = model.run([payload])[0]
    except ModelStageError as error:
        raise GoldenSampleError(f"golden sample: {error}") from error
    if isinstance(answer, RecordError):
        raise GoldenSampleError(f"golden sample: refused in {answer.stage.value}: {answer.message}")
    difference = find_difference(sample.answer, decode_json(answer, _MAX_DEPTH), sample.tolerance)
    if difference is not None:
        raise GoldenSampleError(f"golden sample: {difference}")


def find_difference(expected: Any, given: Any, tolerance: float) -> str | None:
    """Return where and how two JSON values differ first, None when they do not.

    Numbers are equal when they are off by at most `tolerance`, absolutely or in proportion to the larger (`isclose`).
    """
    return next(_differences(expected, given, tolerance, "answer"), None)


def _differences(expected: Any, given: Any, tolerance: float, path: str) -> Iterator[str]:
    if _is_number(expected) and _is_number(given):
        if not _is_close(expected, given, tolerance):
            yield f"{path} is {given!r}, {expected!r} was expected within {tolerance:g}"
    elif isinstance(expected, dict) and isinstance(given, dict):
        for name in sorted(expected.keys() ^ given.keys()):
            yield f"{path} has no {name!r}" if name in expected else f"{path} has {name!r}, which was not expected"
        for name in expected:
            yield from _differences(expected[name], given[name], tolerance, f"{path}.{name}")
    elif isinstance(expected, list) and isinstance(given, list):
        if len(expected) != len(given):
            yield f"{path} has {len(given)} items, {len(expected)} were expected"
        for at, (one, other) in enumerate(zip(expected, given, strict=False)):
            yield from _differences(one, other, tolerance, f"{path}[{at}]")
    elif type(expected) is not type(given) or expected != given:
        yield f"{path} is {_show(given)}, {_show(expected)} was expected"


def _is_close(one: float, other: float, tolerance: float) -> bool:
    try:
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
    except OverflowError:  # a whole number beyond the range of floats
        return one == other


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"
