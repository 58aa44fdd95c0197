"""The three records of the wire contract: a request in, a result or a dead letter out.

The payload is the Kafka value, untouched; the envelope is headers (CloudEvents 1.0, Kafka binary mode). These structs
are what a reader or writer holds; :mod:`schemas.headers` turns them into headers and back.
"""

import enum
from typing import Any

import msgspec

JSON = "application/json"
JPEG = "image/jpeg"
PNG = "image/png"
NPY = "application/x-npy"
SAFETENSORS = "application/safetensors"
TEXT = "text/plain"
BYTES = "application/octet-stream"

CONTENT_TYPES = (JSON, JPEG, PNG, NPY, SAFETENSORS, TEXT, BYTES)
"""Every content type that a request may declare. A request without one is sniffed from its first bytes."""


class Position(msgspec.Struct, frozen=True, gc=False, order=True):
    """Where a record lies in Kafka."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.offset}"


def sticky_key(key: bytes | None, topic: str, partition: int, offset: int) -> bytes:
    """Return what splits and shares of a request go by: its key, or its place when it has none.

    So records without a key are spread, and meet the same again at a replay.
    """
    return f"{topic}:{partition}:{offset}".encode() if key is None else key


class Request(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One request as a worker holds it.

    `timestamp_ms` is the broker's append time (epoch ms) on topics made by `headrace topics create`; `deadline_ms` is
    epoch ms, 0 for none; `payload` is None for a tombstone.
    """

    id: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    payload: bytes | None
    content_type: str
    deadline_ms: int = 0
    traceparent: str = ""
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def position(self) -> Position:
        """Where the request lies in Kafka."""
        return Position(self.topic, self.partition, self.offset)


class Status(enum.StrEnum):
    """How a request was answered in the result topic."""

    OK = "ok"
    """The model answered: `output` holds its answer."""
    EXPIRED = "expired"
    """The deadline passed before an answer could be had: `output` is null."""
    SUPERSEDED = "superseded"
    """A newer record of the same stream was waiting, and the worker was told to drop old ones: `output` is null."""


class Timings(msgspec.Struct, frozen=True, gc=False):
    """Milliseconds that a request spent in the worker, by part."""

    queue_ms: float
    """From the poll that fetched it until its batch entered the model process."""
    model_ms: float
    """In the model process: preprocess, forward and postprocess of its whole batch."""
    batch_size: int
    """Records in the batch that answered it; 0 when it never entered a batch."""


class ResultBody(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON value of a result record."""

    status: Status
    output: msgspec.Raw
    """The model's answer as JSON text; `null` unless the status is ok."""
    source: Position
    timings: Timings
    source_timestamp_ms: int = 0
    """When the request was appended: epoch ms of the broker's clock, 0 when that is not known."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One answered request as a reader of the result topic sees it."""

    request_id: str
    key: bytes | None
    status: Status
    output: msgspec.Raw | None
    """The model's answer as JSON text, None unless the status is ok."""
    source: Position
    timings: Timings
    model: str
    version: str
    epoch: int
    traceparent: str
    position: Position
    """Where the result itself lies."""
    source_timestamp_ms: int = 0
    """When the request was appended, epoch ms; 0 when that is not known. An exact switch is cut by it."""
    precision: str = ""
    """What the version computes in, as its manifest says; empty for results that no model made."""

    @property
    def answer(self) -> Any:
        """The model's answer as a value, read from `output` at every look; None unless the status is ok."""
        return None if self.output is None else msgspec.json.decode(self.output)


class Stage(enum.StrEnum):
    """Where on the data path a record became a dead letter."""

    DECODE = "decode"
    VALIDATE = "validate"
    PREPROCESS = "preprocess"
    MODEL = "model"
    POSTPROCESS = "postprocess"
    EMIT = "emit"


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """Why a record became a dead letter."""

    stage: Stage
    code: str
    """One of the `code` values of the error tree, or one of `model_crashed`, `model_timeout`, `model_out_of_memory`."""
    error_class: str
    message: str
    """At most 1,000 characters, scrubbed of memory addresses and control characters."""
    attempts: int = 1


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """One refused request as a reader of the dead-letter topic sees it: key, value and headers as they came."""

    key: bytes | None
    payload: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    request_id: str
    source: Position
    source_timestamp_ms: int
    error: ErrorDetail
    group: str
    worker: str
    model: str
    version: str
    epoch: int
    time_ms: int
    payload_omitted: bool
    """True when the payload was too large to travel again: it is empty here, and the source position is the pointer."""
    position: Position
    precision: str = ""
    """What the version computes in, as its manifest says; empty when it met none."""
