"""The optional attributes of a request, its envelope, and the report of its delivery."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypedDict

from schemas.errors import EnvelopeError, PipelineError
from schemas.headers import encode_request_headers
from schemas.records import Position


@dataclass(frozen=True)
class Delivery:
    """What became of one request: `position` when it was written, `error` when it was not."""

    request_id: str
    position: Position | None
    error: PipelineError | None


OnDelivery = Callable[[Delivery], None]
"""Called once per request from the client's own thread: be short, and do not publish from it."""


class Attributes(TypedDict, total=False):
    """The optional attributes of a request. Give a deadline as epoch `deadline_ms` or as seconds from now."""

    key: str | bytes | None
    request_id: str | None
    sequence: int | None
    deadline_ms: int | None
    deadline_seconds: float | None
    traceparent: str | None
    headers: Sequence[tuple[str, bytes]]
    on_delivery: OnDelivery | None


def build_headers(
    attributes: Attributes, *, request_id: str, source: str, content_type: str, now: float
) -> list[tuple[str, bytes]]:
    """Write a request's headers, the caller's own last. `now` is epoch seconds.

    Raises EnvelopeError for a value that a worker would refuse, and TypeError for an attribute that does not exist.
    """
    unknown = attributes.keys() - Attributes.__annotations__.keys()
    if unknown:
        raise TypeError(f"no attribute {', '.join(sorted(unknown))}; there are {', '.join(Attributes.__annotations__)}")
    deadline_ms = attributes.get("deadline_ms")
    deadline_seconds = attributes.get("deadline_seconds")
    if deadline_ms is None and deadline_seconds is not None:
        if not math.isfinite(deadline_seconds):
            raise EnvelopeError(f"deadline_seconds: {deadline_seconds} is not a number of seconds from now")
        deadline_ms = int((now + deadline_seconds) * 1000)
    headers = encode_request_headers(
        request_id=request_id,
        source=source,
        content_type=content_type,
        time=datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"),
        sequence=attributes.get("sequence"),
        deadline_ms=deadline_ms,
        traceparent=attributes.get("traceparent"),
    )
    return [*headers, *_own_headers(attributes.get("headers") or ())]


def encode_key(key: str | bytes | None) -> bytes | None:
    """Return the key as it is written. Raises EnvelopeError for one that is neither text nor bytes."""
    if key is None or isinstance(key, bytes):
        return key
    try:
        return key.encode()
    except (AttributeError, UnicodeEncodeError):
        raise EnvelopeError(f"key: {key!r} is neither bytes nor text that can be written as UTF-8") from None


def _own_headers(headers: Sequence[tuple[str, bytes]]) -> Sequence[tuple[str, bytes]]:
    for name, _ in headers:
        if name.startswith("ce_") or name in ("content-type", "traceparent"):
            raise EnvelopeError(f"header {name}: it belongs to the envelope; use the attribute of that meaning instead")
    return headers
