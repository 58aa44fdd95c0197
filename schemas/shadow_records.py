"""The record of one comparison on the shadow topic: what a shadow version answered beside the active one.

Key as the request's; headers as those of a result, of the active answer, and `shadowversion`; value JSON.
"""

from typing import Any

import msgspec

from schemas.errors import EnvelopeError, UnsafeNameError, scrub
from schemas.headers import MAX_ID_CHARS, Headers
from schemas.names import check_name
from schemas.records import Position, Stage

SHADOW_TYPE = b"headrace.shadow"
MAX_SHADOW_BYTES = 128 * 1024
"""Of a body: its parts are bounded so that it fits."""
MAX_OUTPUT_BYTES = 16 * 1024
"""A longer answer of the shadow is left out; its length is told."""
MAX_CHANGES = 20
"""So many changed places are named; `changed` counts the others too."""
MAX_TEXT_CHARS = 200
"""Of a JSON pointer or a text in a changed place; longer ones are cut."""

NO_OUTPUT = msgspec.Raw(b"null")

OutHeaders = list[tuple[str, str | bytes | None]]


class ShadowChange(msgspec.Struct, frozen=True):
    """One place in which the answers differ. What is nested is described and not repeated."""

    pointer: str
    """JSON pointer into the answers; empty for the whole."""
    active: Any = msgspec.UNSET
    """Left out when the active answer has nothing there."""
    shadow: Any = msgspec.UNSET
    """Left out when the shadow's answer has nothing there."""


class LabelChange(msgspec.Struct, frozen=True):
    """The first label of both answers, where that differs."""

    active: str
    shadow: str


class ShadowFailure(msgspec.Struct, frozen=True):
    """Why the shadow gave no answer."""

    stage: Stage
    code: str
    error_class: str
    message: str


class ShadowTimings(msgspec.Struct, frozen=True):
    """What both batches took in their model process, in milliseconds, and how many records they had."""

    active_ms: float
    shadow_ms: float
    active_batch_size: int
    shadow_batch_size: int


class ShadowBody(msgspec.Struct, frozen=True):
    """The value of a record on the shadow topic."""

    equal: bool
    """Both answers are the same: byte for byte, or value for value where both are JSON."""
    source: Position
    """The request's place."""
    source_timestamp_ms: int
    """When the request was appended, in epoch milliseconds."""
    timings: ShadowTimings
    changed: int = 0
    """Places in which the answers differ, those that only one of them has included."""
    only_numbers: bool = False
    """They differ, and in nothing but the values of finite numbers."""
    max_difference: float | None = None
    """Largest absolute difference of two finite numbers in one place; 0 when equal, null when no two were compared."""
    label: LabelChange | None = None
    changes: list[ShadowChange] = []
    """The first changed places, with both values."""
    output: msgspec.Raw = msgspec.field(default_factory=lambda: NO_OUTPUT)
    """The shadow's answer; null when there is none, or one that is too long or no JSON."""
    output_bytes: int = 0
    """How long that answer is."""
    failure: ShadowFailure | None = None
    """Null when the shadow answered."""


class ShadowRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record of the shadow topic as a reader holds it."""

    request_id: str
    key: bytes | None
    model: str
    version: str
    """The version that answered the request."""
    epoch: int
    """Of the decision that made it answer."""
    shadow: str
    """The version that answered nobody."""
    body: ShadowBody
    position: Position


def encode_shadow_headers(
    answer_headers: OutHeaders, shadow: str, request_id: str, traceparent: str = ""
) -> OutHeaders:
    """Make the headers from those that results of the active version share."""
    headers = [(name, SHADOW_TYPE if name == "ce_type" else value) for name, value in answer_headers]
    headers += [("shadowversion", shadow.encode()), ("ce_id", request_id.encode())]
    return [*headers, ("traceparent", traceparent.encode())] if traceparent else headers


def decode_shadow_record(key: bytes | None, value: bytes | None, headers: Headers, position: Position) -> ShadowRecord:
    """Read one record of a shadow topic, whoever wrote it. Raises EnvelopeError when it is not one."""
    if len(value or b"") > MAX_SHADOW_BYTES:
        raise EnvelopeError(f"{position}: not a comparison: {len(value or b'')} bytes; at most {MAX_SHADOW_BYTES}")
    named = dict(headers)

    def text(name: str, limit: int = MAX_ID_CHARS) -> str:
        found = (named.get(name) or b"").decode()
        if not 0 < len(found) <= limit:
            raise ValueError(f"header {name} has {len(found)} characters, not 1 to {limit}")
        return found

    try:
        return ShadowRecord(
            request_id=text("ce_id"),
            key=key,
            model=check_name("modelname", text("modelname")),
            version=check_name("modelversion", text("modelversion")),
            epoch=int(text("modelepoch", limit=16)),
            shadow=check_name("shadowversion", text("shadowversion")),
            body=_decode_body(value or b""),
            position=position,
        )
    except (msgspec.MsgspecError, UnsafeNameError, ValueError, RecursionError) as error:
        raise EnvelopeError(f"{position}: not a comparison: {scrub(str(error), limit=200)}") from None


_decode_body = msgspec.json.Decoder(ShadowBody).decode
