"""What a record costs a model, known from its bytes before anything is decoded.

A batch is bounded by cost and its records are told apart by length so that the model is neither overrun nor fed with
padding. A function of the user's is called as `function(content_type, payload)` in the member's main thread, so it
should look at headers and lengths only; whatever it raises, or returns that is no cost, refuses that one record.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from model_store.import_paths import import_named
from model_store.jpeg_header import read_jpeg_header
from model_store.png_header import read_png_header
from schemas.errors import ConfigurationError, InvalidInputError, InvalidRecordError, scrub
from schemas.records import JPEG, PNG
from stream_workers.batching.work import ShapeKey

CostFunction = Callable[[str, bytes], float]

BYTES_PER_TOKEN = 4
"""What English text takes on average under byte-pair encodings of 30,000 to 100,000 entries."""


def count_pixels(content_type: str, payload: bytes) -> float:
    """Width times height of a JPEG or PNG from its header; 0 for anything else. Raises InvalidInputError."""
    if content_type == JPEG:
        header = read_jpeg_header(payload)
        return float(header.width * header.height)
    if content_type == PNG:
        size = read_png_header(payload)
        return float(size.width * size.height)
    return 0.0


def estimate_tokens(content_type: str, payload: bytes) -> float:
    """Tokens of a text by its length, rounded up. A tokenizer of your own is exact, and slower."""
    del content_type
    return float(-(-len(payload) // BYTES_PER_TOKEN))


def count_bytes(content_type: str, payload: bytes) -> float:
    """Length of the payload."""
    del content_type
    return float(len(payload))


BUILT_IN: Mapping[str, CostFunction] = {"bytes": count_bytes, "pixels": count_pixels, "tokens": estimate_tokens}


def resolve_cost(name: str) -> CostFunction | None:
    """Return the function that `batching.cost` names, None for an empty name. Raises ConfigurationError."""
    if not name:
        return None
    if name in BUILT_IN:
        return BUILT_IN[name]
    found = import_named(name, "batching.cost")
    if not callable(found):
        raise ConfigurationError(f"batching.cost: {name} is not a function of content type and payload")
    function: CostFunction = found
    return function


class Pricing:
    """A cost function, held to its promise, and the length buckets."""

    def __init__(self, function: CostFunction, buckets: Sequence[float] = ()) -> None:
        """`buckets` are rising upper bounds; what lies above the last is a bucket of its own."""
        self._function = function
        self._buckets = buckets

    def price(self, content_type: str, payload: bytes) -> float:
        """Return the record's cost, zero or more. Raises InvalidRecordError when there is none to be had."""
        try:
            cost = float(self._function(content_type, payload))
        except InvalidRecordError:
            raise
        except Exception as error:
            raise InvalidInputError(f"batching.cost raised {type(error).__name__}: {scrub(str(error))}") from error
        if not (math.isfinite(cost) and cost >= 0):
            raise InvalidInputError(f"batching.cost returned {cost}; a cost is a finite number, zero or more")
        return cost

    def tell_apart(self, shape: bytes | str, cost: float) -> ShapeKey:
        """Add the length bucket to what records of one batch have in common."""
        return (shape, bisect_left(self._buckets, cost)) if self._buckets else shape
