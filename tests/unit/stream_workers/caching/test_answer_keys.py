import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_workers.caching.answer_keys import FRAME_BYTES, digest_of, frame_output, open_frame

KEY, OTHER = b"k" * 64, b"o" * 64


def test_content_type_and_payload_both_count_and_cannot_run_together() -> None:
    digests = {digest_of(*pair) for pair in (("ab", b"c"), ("a", b"bc"), ("abc", b""), ("ab", b"d"))}
    assert len(digests) == 4
    assert digest_of("ab", b"c") == digest_of("ab", b"c")


def test_a_content_type_that_is_no_text_has_a_digest() -> None:
    assert digest_of("\udcff", b"") != digest_of("", b"")


@given(st.binary(max_size=64))
def test_what_was_framed_is_opened_when_it_is_json(text: bytes) -> None:
    output = b'"' + text.hex().encode() + b'"'
    assert open_frame(KEY, frame_output(KEY, output), 1000) == output


def test_a_frame_of_another_key_is_not_opened() -> None:
    assert open_frame(KEY, frame_output(OTHER, b"1"), 1000) is None


def test_an_output_above_the_bound_is_not_opened() -> None:
    frame = frame_output(KEY, b'"abc"')
    assert open_frame(KEY, frame, 5) == b'"abc"'
    assert open_frame(KEY, frame, 4) is None


@pytest.mark.parametrize("output", [b"", b"{", b"1 2", b"NaN", b"\xff", b"[" * 100_000, b"\x80\x04."])
def test_a_sound_frame_around_anything_but_json_is_not_opened(output: bytes) -> None:
    assert open_frame(KEY, frame_output(KEY, output), 1 << 20) is None


@given(st.integers(0, FRAME_BYTES + 5), st.integers(1, 255))
def test_no_damaged_byte_goes_unnoticed(position: int, flip: int) -> None:
    frame = bytearray(frame_output(KEY, b"123456"))
    frame[position] ^= flip
    assert open_frame(KEY, bytes(frame), 1000) is None


@given(st.integers(0, FRAME_BYTES + 5), st.binary(max_size=5))
def test_a_frame_cut_short_or_gone_on_with_is_not_opened(length: int, tail: bytes) -> None:
    frame = frame_output(KEY, b"123456")
    assert open_frame(KEY, frame[:length], 1000) is None
    assert open_frame(KEY, frame + tail, 1000) == (None if tail else b"123456")


@given(st.binary(max_size=200))
def test_no_garbage_is_opened(frame: bytes) -> None:
    assert open_frame(KEY, frame, 1000) is None
