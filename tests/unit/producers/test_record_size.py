"""Sizes known before anything is sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from producers.record_size import SizeLimits, count_header_bytes, count_record_bytes
from schemas.errors import PayloadTooLargeError
from schemas.settings import LimitSettings

LIMITS = SizeLimits(payload_bytes=100, key_bytes=10, header_bytes=50, message_bytes=None)
headers = st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=50)), max_size=5)


@given(st.none() | st.binary(max_size=300), st.none() | st.binary(max_size=3000), headers)
def test_the_count_is_never_below_what_the_client_will_send(key, value, headers):
    sent = DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, headers)
    assert count_record_bytes(key, value, headers) >= sent


@pytest.mark.parametrize(
    ("key", "payload", "headers", "message"),
    [
        (None, b"x" * 101, [], r"payload of 101 bytes; limits\.payload_bytes allows 100"),
        (b"k" * 11, b"", [], r"key of 11 bytes; limits\.key_bytes allows 10"),
        (None, b"", [("h", b"x" * 60)], r"headers of 71 bytes; limits\.header_bytes allows 50"),
    ],
)
def test_the_part_that_is_too_large_is_named_with_size_and_limit(key, payload, headers, message):
    with pytest.raises(PayloadTooLargeError, match=rf"request r1: {message}"):
        LIMITS.check("request r1", key, payload, headers)


def test_what_is_exactly_at_its_limit_passes():
    LIMITS.check("r", b"k" * 10, b"x" * 100, [("h", b"x" * 39)])
    LIMITS.check("r", None, None, [])


def test_the_topics_limit_counts_key_headers_and_overhead():
    total = count_record_bytes(b"key", b"payload", [("a", b"b")])
    SizeLimits(message_bytes=total).check("r", b"key", b"payload", [("a", b"b")])
    with pytest.raises(PayloadTooLargeError, match=rf"{total} bytes with key.*allows {total - 1}"):
        SizeLimits(message_bytes=total - 1).check("r", b"key", b"payload", [("a", b"b")])


def test_limits_come_from_the_settings():
    limits = SizeLimits.of(LimitSettings(payload_bytes=7), message_bytes=9)
    assert (limits.payload_bytes, limits.message_bytes) == (7, 9)


def test_header_names_are_counted_in_bytes():
    assert count_header_bytes([("é", b"")]) == count_header_bytes([("ab", b"")])
