import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_workers.batching.work import ServedVersion
from stream_workers.links.framing import FrameError, FrameReader, frame
from stream_workers.links.messages import (
    Done,
    Fault,
    Raised,
    Ready,
    RecordDone,
    Run,
    decode,
    encode,
    outcome_decoder,
    run_decoder,
)

LIMIT = 1000


def feed_in_pieces(reader: FrameReader, stream: bytes, size: int) -> None:
    for at in range(0, len(stream), size):
        reader.feed(stream[at : at + size])


@given(st.lists(st.binary(max_size=200)), st.lists(st.integers(1, 97), min_size=1))
def test_bodies_survive_any_way_of_cutting_the_stream(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame(body, LIMIT) for body in bodies)
    reader = FrameReader(LIMIT)
    received: list[bytes] = []
    turn = 0
    while stream:
        size = cuts[turn % len(cuts)]
        received += reader.feed(stream[:size])
        stream, turn = stream[size:], turn + 1
    assert received == bodies


@pytest.mark.parametrize("size", [LIMIT + 1, 1 << 31, (1 << 32) - 1])
@pytest.mark.parametrize("cut", [1, 4, 100])
def test_a_length_above_the_limit_is_refused_before_its_body_comes(size: int, cut: int) -> None:
    reader = FrameReader(LIMIT)
    announced = struct.pack("<I", size) + bytes(96)
    with pytest.raises(FrameError, match=str(size)):
        feed_in_pieces(reader, announced, cut)


def test_a_message_above_the_limit_is_not_sent() -> None:
    with pytest.raises(FrameError):
        frame(bytes(LIMIT + 1), LIMIT)


TEXT = st.text(max_size=20)
WHOLE = st.integers(0, 1 << 40)
FAULTS = st.builds(Fault, WHOLE, TEXT, TEXT, TEXT, TEXT)


@given(
    st.one_of(
        st.builds(Ready, st.builds(ServedVersion, TEXT, TEXT, WHOLE)),
        st.builds(Done, WHOLE, st.lists(WHOLE), st.lists(FAULTS), st.floats(allow_nan=False), st.binary(max_size=99)),
        st.builds(RecordDone, WHOLE, WHOLE, st.binary(max_size=99), st.none() | FAULTS),
        st.builds(Raised, WHOLE, TEXT, TEXT, TEXT),
    )
)
def test_every_answer_comes_back_as_it_was(message: Ready | Done | RecordDone | Raised) -> None:
    assert decode(outcome_decoder, encode(message)) == message


@given(st.binary(max_size=300))
def test_bytes_that_are_no_message_are_refused_and_nothing_worse(body: bytes) -> None:
    for decoder in (outcome_decoder, run_decoder):
        try:
            decode(decoder, body)
        except FrameError:
            continue


def test_a_message_for_the_other_direction_is_refused() -> None:
    order = Run(1, 0, False, [1], ["text/plain"], [None], ["r"])
    with pytest.raises(FrameError):
        decode(outcome_decoder, encode(order))
    with pytest.raises(FrameError):
        decode(run_decoder, msgspec.msgpack.encode({"type": "run"}))
