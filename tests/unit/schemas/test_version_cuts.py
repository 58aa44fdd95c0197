"""Cuts on the control topic, which anybody may have written."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import EnvelopeError
from schemas.version_cuts import MAX_CUT_BYTES, VersionCut, decode_cut, encode_cut

CUT = VersionCut("m", "requests", 3, 7, 1234, 99)
NUMBERS = st.integers(0, 1 << 53)


@given(st.from_regex(r"[a-z0-9_-]{1,20}", fullmatch=True), NUMBERS, st.integers(1, 1 << 53), NUMBERS)
def test_what_was_written_is_read(topic: str, partition: int, epoch: int, offset: int) -> None:
    cut = VersionCut("m", topic, partition, epoch, offset, 5)
    assert decode_cut(*encode_cut(cut)) == cut


def test_the_key_names_the_cut_so_that_compaction_keeps_one_of_each() -> None:
    assert encode_cut(CUT)[0] == b"m/requests/3/7"


@given(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_any_bytes_are_a_cut_or_refused(key: bytes | None, value: bytes | None) -> None:
    with suppress(EnvelopeError):
        assert encode_cut(decode_cut(key, value))[0] == key


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"m/requests/3/7", b'{"offset":1,"epoch":8,"at_ms":0}'),
        (b"m/requests/3/0", b'{"offset":1,"epoch":0,"at_ms":0}'),
        (b"m/requests/03/7", b'{"offset":1,"epoch":7,"at_ms":0}'),
        (b"m/requests/3/7/8", b'{"offset":1,"epoch":7,"at_ms":0}'),
        (b"../requests/3/7", b'{"offset":1,"epoch":7,"at_ms":0}'),
        (b"m/re quests/3/7", b'{"offset":1,"epoch":7,"at_ms":0}'),
        (b"m/requests/3/7", b'{"offset":-1,"epoch":7,"at_ms":0}'),
        (b"m/requests/3/7", b'{"offset":1,"epoch":7,"at_ms":0,"more":1}'),
        (b"m/requests/3/7", b'{"offset":9007199254740993,"epoch":7,"at_ms":0}'),
        (b"m/requests/9999999999999999/7", b'{"offset":1,"epoch":7,"at_ms":0}'),
        (b"m/requests/3/7", b'{"offset":1,"epoch":7,"at_ms":-1}'),
        (b"m/requests/3/7", b'{"offset":1.5,"epoch":7,"at_ms":0}'),
        (b"m/requests/3/7", b"[]"),
        (b"m/requests/3/7", None),
        (None, b'{"offset":1,"epoch":7,"at_ms":0}'),
        (b"m/requests/3/7", b" " * MAX_CUT_BYTES),
        (b"\xff/requests/3/7", b"{}"),
    ],
)
def test_what_is_no_cut_is_refused(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(EnvelopeError, match="not a cut"):
        decode_cut(key, value)
