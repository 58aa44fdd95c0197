"""Headers to records and back: the envelope half of the wire contract.

Decoding never guesses: a malformed header is an :class:`~schemas.errors.EnvelopeError` that names the header, the value
and what would be right. A record without any header is a valid request.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from schemas.content_sniffing import sniff_content_type
from schemas.errors import EnvelopeError
from schemas.header_values import read_integer, read_short_text, read_text, write_text
from schemas.records import (
    CONTENT_TYPES,
    JSON,
    DeadLetter,
    ErrorDetail,
    Position,
    Request,
    Result,
    ResultBody,
    Stage,
    Status,
)

Headers = Sequence[tuple[str, bytes | None]]
_Value = TypeVar("_Value", bytes, bytes | None)

SPEC_VERSION = b"1.0"
REQUEST_TYPE = "headrace.request"
RESULT_TYPE = b"headrace.result"
RESULT_SOURCE = b"headrace/worker"
ERROR_PREFIX = "__headrace.error."
FORWARDED_PREFIX = "x-forwarded-"
MAX_HEADER_BYTES = 64 * 1024
MAX_ID_CHARS = 256
MAX_TRACE_CHARS = 256
HEADER_FRAMING_BYTES = 10
"""What a header takes on the wire beside its name and value, at most: the two lengths."""
_KNOWN_TYPES: dict[bytes | None, str] = {name.encode(): name for name in CONTENT_TYPES}
_MAX_EPOCH_MS = 253_402_300_799_999  # the end of the year 9999


def _spec_version(value: str) -> None:
    major, _, minor = value.partition(".")
    if major != "1" or (minor and not (minor.isascii() and minor.isdigit() and len(minor) <= 4)):
        raise EnvelopeError(f"header ce_specversion: {value[:40]!r} is not supported; 1.0 or a later 1.x is")


def _deadline(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 15 and int(value) <= _MAX_EPOCH_MS):
        raise EnvelopeError(f"header ce_deadline: {value[:40]!r} is not a time in epoch milliseconds")
    return int(value)


def _content_type(value: str) -> str:
    essence = value.partition(";")[0].strip().lower()
    if essence not in CONTENT_TYPES:
        raise EnvelopeError(f"header content-type: {value[:80]!r} is not one of {', '.join(CONTENT_TYPES)}")
    return essence


def decode_request(  # noqa: PLR0913 - one argument per field that a Kafka client hands over, called once per record
    topic: str,
    partition: int,
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    payload: bytes | None,
    headers: Headers | None,
) -> Request:
    """Read one request. Raises EnvelopeError for a header that cannot be right; the payload is not looked into."""
    request_id = content_type = traceparent = ""
    deadline_ms = 0
    for name, value in headers or ():
        if name == "ce_id":
            request_id = read_short_text(name, value, MAX_ID_CHARS)
        elif name == "content-type":
            content_type = _KNOWN_TYPES.get(value) or _content_type(read_text(name, value))
        elif name == "ce_specversion":
            if value != SPEC_VERSION:
                _spec_version(read_text(name, value))
        elif name == "ce_deadline":
            deadline_ms = _deadline(read_text(name, value))
        elif name == "traceparent":
            traceparent = read_short_text(name, value, MAX_TRACE_CHARS)
        elif name == "ce_dataref":
            raise EnvelopeError("header ce_dataref: payloads by reference are switched off; send the payload itself")
    return Request(
        id=request_id or f"{topic}-{partition}-{offset}",
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=timestamp_ms,
        key=key,
        payload=payload,
        content_type=content_type or sniff_content_type(payload),
        deadline_ms=deadline_ms,
        traceparent=traceparent,
        headers=tuple(headers) if headers else (),  # type: ignore[arg-type]  # a null header value travels on as it came
    )


def encode_request_headers(  # noqa: PLR0913 - the optional attributes of the contract, all keyword-only
    *,
    request_id: str,
    source: str,
    content_type: str,
    time: str,
    event_type: str = REQUEST_TYPE,
    sequence: int | None = None,
    deadline_ms: int | None = None,
    traceparent: str | None = None,
) -> list[tuple[str, bytes]]:
    """Write the envelope of a request. `time` is RFC 3339; `deadline_ms` is epoch ms.

    Raises EnvelopeError for what :func:`decode_request` would refuse.
    """
    headers = [
        ("ce_specversion", SPEC_VERSION),
        ("ce_id", write_text("ce_id", request_id, MAX_ID_CHARS)),
        ("ce_source", source.encode()),
        ("ce_type", event_type.encode()),
        ("ce_time", time.encode()),
        ("content-type", _content_type(content_type).encode()),
    ]
    if sequence is not None:
        headers.append(("ce_sequence", str(sequence).encode()))
    if deadline_ms is not None:
        headers.append(("ce_deadline", str(_deadline(str(deadline_ms))).encode()))
    if traceparent:
        headers.append(("traceparent", write_text("traceparent", traceparent, MAX_TRACE_CHARS)))
    return headers


def encode_result_headers(
    model: str, version: str, epoch: int, precision: str = ""
) -> list[tuple[str, str | bytes | None]]:
    """Write the part of a result's envelope that all results of one version share; the request's id is added to it.

    `precision` is left out when it is not known.
    """
    headers: list[tuple[str, str | bytes | None]] = [
        ("ce_specversion", SPEC_VERSION),
        ("ce_source", RESULT_SOURCE),
        ("ce_type", RESULT_TYPE),
        ("content-type", JSON.encode()),
        ("modelname", model.encode()),
        ("modelversion", version.encode()),
        ("modelepoch", str(epoch).encode()),
    ]
    return [*headers, ("modelprecision", precision.encode())] if precision else headers


def decode_result(key: bytes | None, value: bytes, headers: Headers, position: Position) -> Result:
    """Read one record of a result topic. Raises EnvelopeError when it is not one."""
    named = dict(headers)
    try:
        body = msgspec.json.decode(value, type=ResultBody)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise EnvelopeError(f"{position}: not a result: {error}") from None
    request_id = read_text("ce_id", named.get("ce_id"))
    if not request_id:
        raise EnvelopeError(f"{position}: not a result: no header ce_id")
    return Result(
        request_id=request_id,
        key=key,
        status=body.status,
        output=body.output if body.status is Status.OK else None,
        source=body.source,
        timings=body.timings,
        model=read_text("modelname", named.get("modelname")),
        version=read_text("modelversion", named.get("modelversion")),
        epoch=read_integer("modelepoch", named.get("modelepoch")),
        traceparent=read_text("traceparent", named.get("traceparent")),
        position=position,
        source_timestamp_ms=body.source_timestamp_ms,
        precision=read_text("modelprecision", named.get("modelprecision")),
    )


def count_forwarded_bytes(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """Count what headers take in a dead letter, renamed and framed (an upper bound): a flood of empty ones is large."""
    return sum(
        len(name.encode()) + len(value or b"") + HEADER_FRAMING_BYTES for name, value in forward_headers(headers)
    )


def forward_headers(headers: Iterable[tuple[str, _Value]]) -> list[tuple[str, _Value]]:
    """Keep a request's headers as they came, renaming any that pretends to be ours, so no history can be forged."""
    return [(FORWARDED_PREFIX + name if name.startswith(ERROR_PREFIX) else name, value) for name, value in headers]


def encode_dead_letter_headers(  # noqa: PLR0913 - one argument per fact, all keyword-only
    request: Request,
    error: ErrorDetail,
    *,
    group: str,
    worker: str,
    model: str,
    version: str,
    epoch: int,
    time_ms: int,
    payload_omitted: bool = False,
    precision: str = "",
) -> list[tuple[str, bytes]]:
    """Write a dead letter's headers: those of the request, then ours under one prefix."""
    facts = {
        "id": request.id,
        "topic": request.topic,
        "partition": request.partition,
        "offset": request.offset,
        "timestamp": request.timestamp_ms,
        "group": group,
        "stage": error.stage.value,
        "code": error.code,
        "class": error.error_class,
        "message": error.message,
        "attempts": error.attempts,
        "model": model,
        "version": version,
        "epoch": epoch,
        "worker": worker,
        "time": time_ms,
        "payload-omitted": int(payload_omitted),
    }
    if precision:
        facts["precision"] = precision
    ours = [(ERROR_PREFIX + name, str(value).encode()) for name, value in facts.items()]
    return forward_headers(request.headers) + ours


def decode_dead_letter(key: bytes | None, value: bytes | None, headers: Headers, position: Position) -> DeadLetter:
    """Read one record of a dead-letter topic. Raises EnvelopeError when it is not one."""
    facts = {name.removeprefix(ERROR_PREFIX): data for name, data in headers if name.startswith(ERROR_PREFIX)}
    original = tuple((name, data) for name, data in headers if not name.startswith(ERROR_PREFIX))

    def text(name: str) -> str:
        if name not in facts:
            raise EnvelopeError(f"{position}: not a dead letter: no header {ERROR_PREFIX}{name}")
        return read_text(ERROR_PREFIX + name, facts[name])

    def number(name: str) -> int:
        text(name)
        return read_integer(ERROR_PREFIX + name, facts[name])

    if text("stage") not in list(Stage):
        raise EnvelopeError(f"header {ERROR_PREFIX}stage: {text('stage')[:40]!r} is not one of {', '.join(Stage)}")
    return DeadLetter(
        key=key,
        payload=value,
        headers=original,  # type: ignore[arg-type]  # a null header value travels on as it came
        request_id=text("id"),
        source=Position(text("topic"), number("partition"), number("offset")),
        source_timestamp_ms=number("timestamp"),
        error=ErrorDetail(
            stage=Stage(text("stage")),
            code=text("code"),
            error_class=text("class"),
            message=text("message"),
            attempts=number("attempts"),
        ),
        group=text("group"),
        worker=text("worker"),
        model=text("model"),
        version=text("version"),
        epoch=number("epoch"),
        time_ms=number("time"),
        payload_omitted=bool(number("payload-omitted")),
        position=position,
        precision=read_text(ERROR_PREFIX + "precision", facts.get("precision")),
    )
