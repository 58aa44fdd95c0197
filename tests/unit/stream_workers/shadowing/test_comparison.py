"""From copies that came back to records of the shadow topic, read back as a reader does."""

import msgspec
import pytest

from schemas.errors import EnvelopeError
from schemas.records import Position, Stage, Timings
from schemas.shadow_records import (
    MAX_OUTPUT_BYTES,
    MAX_SHADOW_BYTES,
    ShadowRecord,
    decode_shadow_record,
)
from stream_workers.batching.work import Answer, Batch, Rejected, ReleaseReason, ServedVersion, WorkItem
from stream_workers.pipeline.contract import BatchAnswered, BatchLost, BatchOutcome, BatchRaised, RecordRefused
from stream_workers.shadowing.comparison import ComparisonEncoder
from tests.unit.stream_workers.builders import request

V1, V2 = ServedVersion("m", "v1", 3), ServedVersion("m", "v2", 3)
PLACE = Position("shadow", 0, 7)


def answered_item(offset: int, output: bytes) -> WorkItem:
    made = WorkItem(request(offset, 0), 1, 0.0, "json", 10)
    made.outcome = Answer(output, V1, Timings(1.0, 4.5, 8))
    return made


def copy_of(*outputs: bytes) -> Batch:
    items = [answered_item(offset, output) for offset, output in enumerate(outputs)]
    return Batch(1, items, ReleaseReason.FULL, V2, is_copy=True)


def read_back(outcome: BatchOutcome) -> list[ShadowRecord]:
    written = ComparisonEncoder("shadow", lambda _: "fp32").encode(outcome)
    found = []
    for record, body in written:
        headers = [(name, value.encode() if isinstance(value, str) else value) for name, value in record.headers]
        assert dict(headers)["modelprecision"] == b"fp32"
        assert (record.topic, len(record.value or b"") <= MAX_SHADOW_BYTES) == ("shadow", True)
        found.append(decode_shadow_record(record.key, record.value, headers, PLACE))
        assert found[-1].body == body
    return found


def test_each_answer_is_told_beside_the_active_one() -> None:
    batch = copy_of(b'[{"p":0.5}]', b"[2]")
    same, other = read_back(BatchAnswered(batch, [b'[{"p":0.5}]', b"[4]"], V2, 9.0))
    assert (same.model, same.version, same.epoch, same.shadow) == ("m", "v1", 3, "v2")
    assert same.request_id == batch.items[0].request.id
    assert same.key == batch.items[0].request.key
    assert same.body.source == batch.items[0].request.position
    assert (same.body.equal, same.body.max_difference, same.body.output) == (True, 0.0, msgspec.Raw(b'[{"p":0.5}]'))
    assert (other.body.equal, other.body.only_numbers, other.body.max_difference) == (False, True, 2.0)
    timings = other.body.timings
    assert (timings.active_ms, timings.shadow_ms, timings.active_batch_size, timings.shadow_batch_size) == (
        4.5,
        9.0,
        8,
        2,
    )


def test_a_failure_is_told_with_its_reason() -> None:
    batch = copy_of(b"[1]", b"[2]")
    refusal = RecordRefused(Stage.PREPROCESS, "invalid_input", "InvalidInputError", "no")
    (refused, _) = read_back(BatchAnswered(batch, [refusal, b"[2]"], V2, 9.0))
    assert refused.body.failure is not None
    assert (refused.body.failure.stage, refused.body.failure.code) == (Stage.PREPROCESS, "invalid_input")
    for outcome, code in (
        (BatchRaised(batch, Stage.MODEL, "RuntimeError", "boom", V2), "model_failure"),
        (BatchLost(batch, [], True, None, "model_crashed", "signal 9", V2), "model_crashed"),
    ):
        records = read_back(outcome)
        assert [one.body.failure.code for one in records if one.body.failure] == [code, code]
        assert not any(one.body.equal for one in records)


def test_an_answer_that_is_too_long_or_no_json_is_left_out() -> None:
    long = b'"' + b"x" * MAX_OUTPUT_BYTES + b'"'
    first, second = read_back(BatchAnswered(copy_of(b"1", b"not json"), [long, b"not json"], V2, 1.0))
    assert (first.body.output, first.body.output_bytes) == (msgspec.Raw(b"null"), len(long))
    assert (second.body.output, second.body.equal) == (msgspec.Raw(b"null"), True)


def test_a_record_that_has_no_active_answer_is_passed_over() -> None:
    batch = copy_of(b"1")
    batch.items[0].outcome = Rejected(None, V1)  # type: ignore[arg-type]  # its reason is not looked at
    assert read_back(BatchAnswered(batch, [b"1"], V2, 1.0)) == []


@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (None, {}),
        (b"{}", {}),
        (b"x" * (MAX_SHADOW_BYTES + 1), {}),
        (None, {"modelname": b"../up"}),
        (None, {"modelepoch": b"many"}),
        (None, {"ce_id": b""}),
        (None, {"shadowversion": b"\xff"}),
    ],
)
def test_what_is_no_comparison_is_refused(value: bytes | None, headers: dict[str, bytes]) -> None:
    (record, _), *_ = ComparisonEncoder("shadow", lambda _: "").encode(BatchAnswered(copy_of(b"1"), [b"2"], V2, 1.0))
    sound = {name: text if isinstance(text, bytes) else b"" for name, text in record.headers}
    decode_shadow_record(None, record.value, list(sound.items()), PLACE)
    altered = list({**sound, **headers}.items()) if headers or value else []
    with pytest.raises(EnvelopeError, match="not a comparison"):
        decode_shadow_record(None, value or record.value, altered, PLACE)
