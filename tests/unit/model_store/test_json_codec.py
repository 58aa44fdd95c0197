import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.json_codec import decode_json
from schemas.errors import InvalidInputError, InvalidRecordError, PayloadTooLargeError

DEPTH = 64
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@given(VALUES)
def test_what_json_writes_is_what_comes_back(value: object) -> None:
    assert decode_json(json.dumps(value).encode(), DEPTH) == value
    assert decode_json(json.dumps(value, ensure_ascii=False).encode(), DEPTH) == value


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,\\0e.-ntf ', max_size=60).map(str.encode))
def test_no_bytes_raise_anything_but_a_refusal_of_the_record(data: bytes) -> None:
    with contextlib.suppress(InvalidRecordError):
        decode_json(data, 4)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":1}', b'[{"a":{"b":1,"b":2}},{}]', b'{"a":1,"\\u0061":2}', b'{"":[{"x":1,"x":1}]}',
    ],
)  # fmt: skip
def test_a_key_given_twice_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidInputError, match="twice"):
        decode_json(text, DEPTH)


@pytest.mark.parametrize(
    "text",
    [
        b"NaN", b"[Infinity]", b"[-Infinity]", b"1e400", b"-1e400", b"", b" ", b"[1,]", b"{'a':1}", b'"\xff"',
        b"\xef\xbb\xbf1",
        b"[1] 2", b"01", b'"\x01"', b'{"a":1', b"1" * 100_000, b"9" * 10_000_000,
    ],
)  # fmt: skip
def test_what_is_not_strict_json_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidInputError):
        decode_json(text, DEPTH)


@pytest.mark.parametrize(
    "text", [b"[" * 10_000 + b"]" * 10_000, b'{"a":' * 10_000 + b"1" + b"}" * 10_000, b"[" * 10_000]
)
def test_nesting_beyond_the_limit_is_refused(text: bytes) -> None:
    with pytest.raises(PayloadTooLargeError):
        decode_json(text, DEPTH)


def test_nesting_at_the_limit_is_read_and_one_more_is_not() -> None:
    assert decode_json(b"[" * 3 + b"]" * 3 + b" ", 3) == [[[]]]
    with pytest.raises(PayloadTooLargeError):
        decode_json(b"[" * 4 + b"]" * 4, 3)


def test_brackets_and_colons_inside_strings_do_not_count() -> None:
    text = json.dumps({"a": '[[[{{:::\\"]', "b": ["}:"] * 9}).encode()

    assert decode_json(text, 2) == json.loads(text)


def test_many_siblings_are_not_depth() -> None:
    assert decode_json(b"[" + b"[]," * 500 + b"{}]", 2)[-1] == {}


def test_a_long_run_of_escaped_quotes_costs_one_pass() -> None:
    with pytest.raises(InvalidInputError):
        decode_json(b'{"' + b'\\"' * 500_000, DEPTH)
