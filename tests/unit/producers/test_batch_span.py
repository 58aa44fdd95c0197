import struct

import pytest

from producers.batch_span import parse_span
from schemas.errors import InvalidRecordError, UnavailableError


def header(*, base: int = 5, length: int = 100, magic: int = 2, last_delta: int = 3) -> bytes:
    return struct.pack(">qiibIhi", base, length, 0, magic, 0, 0, last_delta) + b"the rest"


def test_the_span_is_read_from_the_header() -> None:
    assert parse_span(header(), "here", 6) == (5, 8)


def test_a_batch_behind_a_hole_is_the_answer_for_an_offset_in_the_hole() -> None:
    assert parse_span(header(), "here", 2) == (5, 8)


def test_no_batch_is_unavailable() -> None:
    with pytest.raises(UnavailableError, match="here: the broker has no batch there"):
        parse_span(header()[:20], "here", 5)


@pytest.mark.parametrize(
    "damaged",
    [header(magic=1), header(base=-1), header(length=0), header(last_delta=-1), header(base=1, last_delta=1)],
)
def test_a_header_that_cannot_be_right_is_not_trusted(damaged: bytes) -> None:
    with pytest.raises(InvalidRecordError, match="damaged"):
        parse_span(damaged, "here", 5)
