"""From a copy that came back to the records of the shadow topic. Pure; runs on the courier's thread."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from schemas.errors import ModelFailureError, scrub
from schemas.headers import encode_result_headers
from schemas.records import Stage
from schemas.shadow_records import (
    MAX_OUTPUT_BYTES,
    NO_OUTPUT,
    OutHeaders,
    ShadowBody,
    ShadowFailure,
    ShadowTimings,
    encode_shadow_headers,
)
from stream_workers.batching.work import Answer, ServedVersion, WorkItem
from stream_workers.kafka.outcome_encoding import OutRecord
from stream_workers.pipeline.contract import (
    BatchAnswered,
    BatchLost,
    BatchOutcome,
    BatchRaised,
    RecordOutcome,
    RecordRefused,
)
from stream_workers.shadowing.difference import compare_answers

RAISED_CODE = ModelFailureError.code
EXPIRED_CODE = "expired"
_RANDOM_PARTITION = -1

_encode = msgspec.json.Encoder().encode


class ComparisonEncoder:
    """Writes what became of copies in the wire contract."""

    def __init__(self, topic: str, precision_of: Callable[[str], str]) -> None:
        """`precision_of` knows what a version computes in, or returns an empty text."""
        self._topic = topic
        self._precision_of = precision_of
        self._shared: tuple[ServedVersion, OutHeaders] | None = None

    def encode(self, outcome: BatchOutcome) -> Iterator[tuple[OutRecord, ShadowBody]]:
        """Make the record of each copy of a batch, and its body."""
        shadow = outcome.version.version
        model_ms = outcome.model_ms if isinstance(outcome, BatchAnswered) else 0.0
        for item, answer in zip(outcome.batch.items, _list_answers(outcome), strict=True):
            if type(item.outcome) is not Answer:
                continue
            body = compare(item, item.outcome, answer, model_ms, len(outcome.batch.items))
            request = item.request
            headers = encode_shadow_headers(
                self._answer_headers(item.outcome.version), shadow, request.id, request.traceparent
            )
            yield OutRecord(self._topic, _RANDOM_PARTITION, request.key, _encode(body), headers), body

    def _answer_headers(self, version: ServedVersion) -> OutHeaders:
        if self._shared is None or self._shared[0] != version:
            precision = self._precision_of(version.version)
            headers = encode_result_headers(version.model, version.version, version.epoch, precision)
            self._shared = version, headers
        return self._shared[1]


def compare(
    item: WorkItem, active: Answer, shadow: RecordOutcome | ShadowFailure, shadow_ms: float, shadow_size: int
) -> ShadowBody:
    """Say how a shadow's answer to one request differs from the active one."""
    request = item.request
    timings = ShadowTimings(active.timings.model_ms, round(shadow_ms, 3), active.timings.batch_size, shadow_size)
    place = (request.position, request.timestamp_ms, timings)
    if not isinstance(shadow, bytes):
        failure = shadow if isinstance(shadow, ShadowFailure) else _describe_refusal(shadow)
        return ShadowBody(False, *place, failure=failure)
    found = compare_answers(active.output, shadow)
    return ShadowBody(
        found.equal,
        *place,
        changed=found.changed,
        only_numbers=found.only_numbers,
        max_difference=found.max_difference,
        label=found.label,
        changes=found.changes,
        output=_keep(shadow),
        output_bytes=len(shadow),
    )


def _keep(output: bytes) -> msgspec.Raw:
    """The answer, if it is JSON that is short enough: anything else would break the record."""
    if len(output) > MAX_OUTPUT_BYTES:
        return NO_OUTPUT
    try:
        msgspec.json.decode(output)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError):
        return NO_OUTPUT
    return msgspec.Raw(output)


def _list_answers(outcome: BatchOutcome) -> Sequence[RecordOutcome | ShadowFailure]:
    if isinstance(outcome, BatchAnswered):
        return outcome.outcomes
    return [_describe_failure(outcome)] * len(outcome.batch.items)


def _describe_failure(outcome: BatchRaised | BatchLost) -> ShadowFailure:
    """All records of the copy share it: a copy is not taken apart to find the guilty one."""
    if isinstance(outcome, BatchRaised):
        return ShadowFailure(outcome.stage, RAISED_CODE, outcome.error_class, scrub(outcome.message))
    return ShadowFailure(Stage.MODEL, outcome.code, "ModelFailureError", scrub(outcome.detail))


def _describe_refusal(refused: Any) -> ShadowFailure:
    if isinstance(refused, RecordRefused):
        return ShadowFailure(refused.stage, refused.code, refused.error_class, scrub(refused.message))
    return ShadowFailure(Stage.VALIDATE, EXPIRED_CODE, "", "its deadline had passed")
