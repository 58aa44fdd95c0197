"""Headers to records and back, with hostile values."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.content_sniffing import sniff_content_type
from schemas.errors import EnvelopeError
from schemas.headers import (
    ERROR_PREFIX,
    FORWARDED_PREFIX,
    decode_dead_letter,
    decode_request,
    decode_result,
    encode_dead_letter_headers,
    encode_request_headers,
    encode_result_headers,
    forward_headers,
)
from schemas.records import BYTES, CONTENT_TYPES, JPEG, JSON, NPY, PNG, ErrorDetail, Position, Stage, Status

SOURCE = Position("requests", 3, 42)
HERE = Position("outputs", 1, 7)
texts = st.text(max_size=200)
ids = st.text(min_size=1, max_size=256)
headers = st.lists(st.tuples(st.text(max_size=30), st.binary(max_size=30)), max_size=5)


def decode(request_headers: list[tuple[str, bytes | None]] | None, payload: bytes | None = b"{}"):
    return decode_request("requests", 3, 42, 1_700_000_000_000, b"key", payload, request_headers)


def encode(**changes):
    given_values = {"request_id": "r1", "source": "test", "content_type": JSON, "time": "2026-01-01T00:00:00Z"}
    return encode_request_headers(**(given_values | changes))


def error_detail(**changes) -> ErrorDetail:
    values = {"stage": Stage.MODEL, "code": "model_failure", "error_class": "ValueError", "message": "no"}
    return ErrorDetail(**(values | changes))


def dead_letter_headers(request, **changes):
    facts = {"group": "g", "worker": "w-0", "model": "m", "version": "v1", "epoch": 2, "time_ms": 5}
    return encode_dead_letter_headers(request, error_detail(), **(facts | changes))


@given(
    request_id=ids,
    content_type=st.sampled_from(CONTENT_TYPES),
    sequence=st.none() | st.integers(0, 2**63),
    deadline_ms=st.none() | st.integers(0, 253_402_300_799_999),
    traceparent=st.none() | texts,
)
def test_a_request_envelope_survives_the_wire(request_id, content_type, sequence, deadline_ms, traceparent):
    encoded = encode(
        request_id=request_id,
        content_type=content_type,
        sequence=sequence,
        deadline_ms=deadline_ms,
        traceparent=traceparent,
    )
    request = decode(encoded)
    assert request.id == request_id
    assert request.content_type == content_type
    assert request.deadline_ms == (deadline_ms or 0)
    assert request.traceparent == (traceparent or "")
    assert request.position == SOURCE
    assert list(request.headers) == encoded


def test_a_bare_record_is_a_valid_request_named_after_its_place():
    request = decode(None, b'{"a": 1}')
    assert request.id == "requests-3-42"
    assert request.content_type == JSON
    assert request.headers == ()


@pytest.mark.parametrize("value", [b"1.0", b"1", b"1.1", b"1.9999"])
def test_a_later_minor_specification_is_accepted(value):
    assert decode([("ce_specversion", value)]).id


@pytest.mark.parametrize(
    "value", [b"2.0", b"0", b"-1", b"text", b"9223372036854775808", b"1.x", b"1.-1", b"1.99999", b"", b"\xff", None]
)
def test_another_major_specification_is_refused_by_name(value):
    with pytest.raises(EnvelopeError, match="ce_specversion"):
        decode([("ce_specversion", value)])


@pytest.mark.parametrize(
    "value", [b"", b"-1", b"soon", b"1e9", b"9" * 5000, b"253402300800000", "١٢".encode(), b"1.5", b"\xff", None]
)
def test_a_deadline_that_is_no_time_is_refused(value):
    with pytest.raises(EnvelopeError, match="ce_deadline"):
        decode([("ce_deadline", value)])


@pytest.mark.parametrize("value", [b"text/html", b"", b"application/python-pickle", b"\xff\xfe"])
def test_an_unknown_content_type_is_refused(value):
    with pytest.raises(EnvelopeError, match="content-type"):
        decode([("content-type", value)])


def test_a_content_type_may_carry_parameters():
    assert decode([("content-type", b"Application/JSON; charset=utf-8")]).content_type == JSON


def test_an_id_beyond_the_limit_is_refused():
    with pytest.raises(EnvelopeError, match="257 characters"):
        decode([("ce_id", b"x" * 257)])


def test_a_trace_context_beyond_the_limit_is_refused():
    with pytest.raises(EnvelopeError, match="traceparent: 257 characters"):
        decode([("traceparent", b"x" * 257)])


def test_payloads_by_reference_are_refused():
    with pytest.raises(EnvelopeError, match="ce_dataref"):
        decode([("ce_dataref", b"file:///etc/shadow")])


@given(st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=40)), max_size=6))
def test_hostile_headers_are_refused_or_read_and_nothing_else_happens(hostile):
    try:
        request = decode(hostile)
    except EnvelopeError:
        return
    assert list(request.headers) == hostile


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        (b"\xff\xd8\xff\xe0", JPEG),
        (b"\x89PNG\r\n\x1a\n", PNG),
        (b"\x93NUMPY\x01", NPY),
        (b'  {"a"', JSON),
        (b"-1", JSON),
        (b"\x00\x01", BYTES),
        (b"", BYTES),
        (None, BYTES),
        (b" " * 100, BYTES),
    ],
)
def test_a_payload_without_content_type_is_sniffed(payload, kind):
    assert sniff_content_type(payload) == kind


def result_value(**changes) -> bytes:
    body = {
        "status": "ok",
        "output": {"a": [1, None]},
        "source": {"topic": "requests", "partition": 3, "offset": 42},
        "timings": {"queue_ms": 1.0, "model_ms": 2.5, "batch_size": 4},
    }
    return msgspec.json.encode(body | changes)


def result_headers(request_id: str = "r1"):
    return [*encode_result_headers("m", "v1", 3), ("ce_id", request_id.encode())]


def test_a_result_survives_the_wire():
    result = decode_result(b"key", result_value(), result_headers(), HERE)
    assert (result.request_id, result.status, result.model, result.version, result.epoch) == (
        "r1",
        Status.OK,
        "m",
        "v1",
        3,
    )
    assert msgspec.json.decode(result.output) == {"a": [1, None]}
    assert result.source == SOURCE
    assert result.position == HERE


def test_an_expired_result_has_no_output():
    assert decode_result(None, result_value(status="expired", output=None), result_headers(), HERE).output is None


def test_a_null_answer_of_the_model_is_an_answer():
    output = decode_result(None, result_value(output=None), result_headers(), HERE).output
    assert output is not None
    assert msgspec.json.decode(output) is None


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b"[" * 100_000,
        result_value(status="fine"),
        result_value(source=None),
        result_value(timings={}),
        result_value()[:-1],
    ],
)
def test_a_value_that_is_no_result_is_refused_by_position(value):
    with pytest.raises(EnvelopeError, match="outputs-1-7"):
        decode_result(None, value, result_headers(), HERE)


@pytest.mark.parametrize("missing", ["ce_id", "modelepoch"])
def test_a_result_without_its_name_or_epoch_is_refused(missing):
    kept = [header for header in result_headers() if header[0] != missing]
    with pytest.raises(EnvelopeError, match=missing):
        decode_result(None, result_value(), kept, HERE)


@given(request_headers=headers, message=texts, epoch=st.integers(0, 2**53), payload=st.none() | st.binary(max_size=50))
def test_a_dead_letter_survives_the_wire(request_headers, message, epoch, payload):
    try:
        request = decode(request_headers, payload)
    except EnvelopeError:
        return
    detail = error_detail(message=message, attempts=3)
    encoded = encode_dead_letter_headers(
        request, detail, group="g", worker="w-0", model="m", version="v1", epoch=epoch, time_ms=9, payload_omitted=True
    )
    letter = decode_dead_letter(b"key", payload, encoded, HERE)
    assert letter.request_id == request.id
    assert letter.source == SOURCE
    assert letter.error == detail
    assert (letter.group, letter.worker, letter.model, letter.version, letter.epoch) == ("g", "w-0", "m", "v1", epoch)
    assert (letter.time_ms, letter.source_timestamp_ms) == (9, 1_700_000_000_000)
    assert letter.payload_omitted
    assert list(letter.headers) == forward_headers(request_headers)


def test_a_client_cannot_forge_the_history_of_a_dead_letter():
    forged = [(ERROR_PREFIX + "code", b"fine"), (ERROR_PREFIX + "topic", b"elsewhere"), ("mine", b"1")]
    letter = decode_dead_letter(None, b"", dead_letter_headers(decode(forged)), HERE)
    assert letter.error.code == "model_failure"
    assert letter.source.topic == "requests"
    assert letter.headers == (
        (FORWARDED_PREFIX + ERROR_PREFIX + "code", b"fine"),
        (FORWARDED_PREFIX + ERROR_PREFIX + "topic", b"elsewhere"),
        ("mine", b"1"),
    )


@pytest.mark.parametrize("name", ["id", "topic", "partition", "stage", "code", "epoch", "payload-omitted"])
def test_a_dead_letter_without_one_of_its_facts_is_refused(name):
    kept = [header for header in dead_letter_headers(decode(None)) if header[0] != ERROR_PREFIX + name]
    with pytest.raises(EnvelopeError, match=name):
        decode_dead_letter(None, b"", kept, HERE)


@pytest.mark.parametrize(
    ("name", "value"),
    [("stage", b"lunch"), ("stage", None), ("partition", b"x"), ("offset", b"9" * 5000), ("message", b"\xff")],
)
def test_a_dead_letter_with_a_false_fact_is_refused(name, value):
    changed = [(key, value if key == ERROR_PREFIX + name else old) for key, old in dead_letter_headers(decode(None))]
    with pytest.raises(EnvelopeError, match=name):
        decode_dead_letter(None, b"", changed, HERE)
