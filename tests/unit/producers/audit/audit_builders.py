"""Requests and outcomes with defaults for what a test does not care about, as values and as Kafka records."""

from typing import Any

import msgspec

from producers.audit.ledger import SentRecord
from producers.outcomes import Record
from schemas.headers import encode_dead_letter_headers, encode_request_headers, encode_result_headers
from schemas.records import (
    JSON,
    DeadLetter,
    ErrorDetail,
    Position,
    Request,
    Result,
    ResultBody,
    Stage,
    Status,
    Timings,
)

REQUESTS, RESULTS, DEAD = "requests", "results", "dead"
TIMINGS = Timings(1.0, 1.0, 1)
ERROR = ErrorDetail(stage=Stage.DECODE, code="envelope", error_class="EnvelopeError", message="no")


def sent(offset: int, *, partition: int = 0, request_id: str | None = "", key: str | None = "k") -> SentRecord:
    name = f"r{partition}-{offset}" if request_id == "" else request_id
    return SentRecord(Position(REQUESTS, partition, offset), name, key)


def result(
    offset: int,
    at: int,
    *,
    partition: int = 0,
    to: int = 0,
    request_id: str = "",
    status: Status = Status.OK,
    epoch: int = 1,
) -> Result:
    return Result(
        request_id=request_id or f"r{partition}-{offset}",
        key=b"k",
        status=status,
        output=msgspec.Raw(b"1"),
        source=Position(REQUESTS, partition, offset),
        timings=TIMINGS,
        model="m",
        version="v1",
        epoch=epoch,
        traceparent="",
        position=Position(RESULTS, to, at),
    )


def dead_letter(offset: int, at: int, *, partition: int = 0, version: str = "v1", epoch: int = 1) -> DeadLetter:
    return DeadLetter(
        key=b"k",
        payload=b"",
        headers=(),
        request_id=f"r{partition}-{offset}",
        source=Position(REQUESTS, partition, offset),
        source_timestamp_ms=0,
        error=ERROR,
        group="g",
        worker="w",
        model="m",
        version=version,
        epoch=epoch,
        time_ms=0,
        payload_omitted=False,
        position=Position(DEAD, 0, at),
    )


def request_record(offset: int, *, partition: int = 0, value: bytes | None = b"{}", request_id: str = "") -> Record:
    headers = encode_request_headers(
        request_id=request_id or f"r{partition}-{offset}", source="test", content_type=JSON, time="2026-01-01T00:00:00Z"
    )
    return Record(Position(REQUESTS, partition, offset), 0, b"k", value, headers)


def result_record(
    offset: int, at: int, *, partition: int = 0, to: int = 0, request_id: str = "", epoch: int = 1
) -> Record:
    body = ResultBody(
        status=Status.OK, output=msgspec.Raw(b"1"), source=Position(REQUESTS, partition, offset), timings=TIMINGS
    )
    headers: list[tuple[str, Any]] = [
        *encode_result_headers("m", "v1", epoch),
        ("ce_id", (request_id or f"r{partition}-{offset}").encode()),
    ]
    return Record(Position(RESULTS, to, at), 0, b"k", msgspec.json.encode(body), headers)


def dead_letter_record(offset: int, at: int, *, partition: int = 0) -> Record:
    request = Request(
        id=f"r{partition}-{offset}",
        topic=REQUESTS,
        partition=partition,
        offset=offset,
        timestamp_ms=0,
        key=b"k",
        payload=b"",
        content_type=JSON,
    )
    headers = encode_dead_letter_headers(
        request, ERROR, group="g", worker="w", model="m", version="v1", epoch=1, time_ms=0
    )
    return Record(Position(DEAD, 0, at), 0, b"k", b"", headers)
