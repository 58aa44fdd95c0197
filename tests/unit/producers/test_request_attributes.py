"""Request ids and envelopes."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.request_attributes import build_headers, encode_key
from producers.request_ids import new_request_id
from schemas.errors import EnvelopeError
from schemas.headers import decode_request


def build(attributes, content_type="text/plain"):
    return build_headers(attributes, request_id="r1", source="test", content_type=content_type, now=1000.25)


def test_request_ids_are_unique_version_7_and_in_the_order_of_time(monkeypatch):
    ids = []
    for millisecond in range(100):
        monkeypatch.setattr("time.time_ns", lambda at=millisecond: (1_700_000_000_000 + at) * 1_000_000)
        ids.append(new_request_id())
    assert ids == sorted(set(ids))
    assert {uuid.UUID(each).version for each in ids} == {7}
    assert {uuid.UUID(each).variant for each in ids} == {uuid.RFC_4122}


def test_a_deadline_in_seconds_counts_from_now():
    assert dict(build({"deadline_seconds": 1.5}))["ce_deadline"] == b"1001750"


def test_an_absolute_deadline_wins():
    assert dict(build({"deadline_seconds": 1.5, "deadline_ms": 7}))["ce_deadline"] == b"7"


def test_the_time_is_written_with_its_zone():
    assert dict(build({}))["ce_time"] == b"1970-01-01T00:16:40.250+00:00"


def test_an_unknown_content_type_is_refused_before_sending():
    with pytest.raises(EnvelopeError, match="text/html"):
        build({}, content_type="text/html")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"deadline_seconds": float("inf")}, "deadline_seconds"),
        ({"deadline_seconds": 1e12}, "ce_deadline"),
        ({"deadline_ms": -1}, "ce_deadline"),
        ({"traceparent": "x" * 300}, "traceparent"),
        ({"headers": [("ce_id", b"forged")]}, "ce_id"),
        ({"headers": [("content-type", b"x")]}, "content-type"),
    ],
)
def test_what_a_worker_would_refuse_is_refused_before_sending(attributes, message):
    with pytest.raises(EnvelopeError, match=message):
        build(attributes)


@pytest.mark.parametrize("request_id", ["x" * 257, "\ud800"])
def test_an_id_that_cannot_travel_is_refused(request_id):
    with pytest.raises(EnvelopeError, match="ce_id"):
        build_headers({}, request_id=request_id, source="test", content_type="text/plain", now=0.0)


def test_a_misspelt_attribute_is_refused_with_those_there_are():
    with pytest.raises(TypeError, match=r"no attribute deadline_second; .*deadline_seconds"):
        build({"deadline_second": 3})


def test_a_key_is_text_or_bytes():
    assert (encode_key(None), encode_key(b"k"), encode_key("k")) == (None, b"k", b"k")
    for key in (7, "\ud800"):
        with pytest.raises(EnvelopeError, match="key"):
            encode_key(key)


@given(extra=st.lists(st.tuples(st.text(max_size=9).map("x-".__add__), st.binary(max_size=9)), max_size=3))
def test_the_callers_own_headers_travel_last(extra):
    request = decode_request("t", 0, 0, 0, None, b"", build({"headers": extra}))
    assert request.id == "r1"
    assert list(request.headers[len(request.headers) - len(extra) :]) == extra
