"""Builders of outcomes for the tests of the demo: each test names only what it varies."""

import msgspec

from producers.audit.ledger import SentRecord
from schemas.records import DeadLetter, ErrorDetail, Position, Result, Stage, Status, Timings

TABBY = [{"label": "tabby", "index": 281, "probability": 0.5}]


def make_result(stream: str, sequence: int, *, offset: int | None = None, output: object = None) -> Result:
    """A result of `stream`'s request at `offset`, which is the sequence unless given."""
    offset = sequence if offset is None else offset
    return Result(
        request_id=f"{stream}-{sequence:05d}",
        key=stream.encode(),
        status=Status.OK,
        output=msgspec.Raw(msgspec.json.encode(TABBY if output is None else output)),
        source=Position("requests", 0, offset),
        timings=Timings(1.0, 2.0, 4),
        model="net",
        version="v1",
        epoch=1,
        traceparent="",
        position=Position("results", 0, offset),
    )


def make_dead_letter(stream: str, sequence: int) -> DeadLetter:
    """A dead letter of `stream`'s request at the offset `sequence`."""
    return DeadLetter(
        key=stream.encode(),
        payload=b"x",
        headers=(),
        request_id=f"{stream}-{sequence:05d}",
        source=Position("requests", 0, sequence),
        source_timestamp_ms=0,
        error=ErrorDetail(stage=Stage.PREPROCESS, code="invalid_input", error_class="InvalidInputError", message="no"),
        group="demo",
        worker="w",
        model="net",
        version="v1",
        epoch=1,
        time_ms=0,
        payload_omitted=False,
        position=Position("dead", 0, sequence),
    )


def make_sent(stream: str, count: int) -> list[SentRecord]:
    """The acknowledged requests that `make_result` and `make_dead_letter` answer."""
    return [SentRecord(Position("requests", 0, index), f"{stream}-{index:05d}", stream) for index in range(count)]
