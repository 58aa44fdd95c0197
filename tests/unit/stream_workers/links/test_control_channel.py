import os
from collections.abc import Iterator

import pytest

from stream_workers.batching.work import ServedVersion
from stream_workers.links.control_channel import ControlChannel, make_pair
from stream_workers.links.framing import FrameError, LinkClosedError
from stream_workers.links.messages import (
    Attach,
    Detach,
    FromMember,
    Serve,
    Status,
    ToMember,
    from_member_decoder,
    to_member_decoder,
)

VERSION = ServedVersion("m", "v1", 1)
Pair = tuple[ControlChannel[FromMember], ControlChannel[ToMember]]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = make_pair()
    supervisor, member = ControlChannel(ours, from_member_decoder), ControlChannel(theirs, to_member_decoder)
    yield supervisor, member
    supervisor.close()
    member.close()


def receive_all(channel: ControlChannel[ToMember]) -> list[tuple[ToMember, list[int]]]:
    found: list[tuple[ToMember, list[int]]] = []
    while some := channel.receive():
        found += some
    return found


def test_each_message_gets_its_own_descriptors(pair: Pair) -> None:
    supervisor, member = pair
    for number in range(3):
        reader, writer = os.pipe()
        other_reader, other_writer = os.pipe()
        os.write(writer, b"%d" % number)
        os.close(writer)
        os.close(other_writer)
        supervisor.send(Attach(number, VERSION, 2, 4096), [reader, other_reader])
        supervisor.send(Detach(number, "model_crashed", "x"))
    received = receive_all(member)
    assert [type(message) for message, _ in received] == [Attach, Detach] * 3
    for number, (_, descriptors) in enumerate(received[::2]):
        assert os.read(descriptors[0], 9) == b"%d" % number
        assert os.read(descriptors[1], 9) == b""
        for descriptor in descriptors:
            os.close(descriptor)


def test_sent_descriptors_are_closed_on_this_side(pair: Pair) -> None:
    supervisor, member = pair
    reader, writer = os.pipe()
    supervisor.send(Attach(1, VERSION, 2, 4096), [reader, writer])
    for descriptor in (reader, writer):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    (_, received) = receive_all(member)[0]
    for descriptor in received:
        os.close(descriptor)


def test_a_peer_that_does_not_read_blocks_nobody_and_loses_nothing(pair: Pair) -> None:
    supervisor, member = pair
    statuses = [Status(True, [], "x" * 100_000 + str(number)) for number in range(20)]
    for status in statuses:
        member.send(status)
    assert member.has_unsent
    received: list[FromMember] = []
    while len(received) < len(statuses):
        received += [message for message, _ in supervisor.receive()]
        member.flush()
    assert received == statuses
    assert not member.has_unsent


def test_the_end_of_the_peer_is_told_after_its_last_words(pair: Pair) -> None:
    supervisor, member = pair
    member.send(Serve([VERSION]))
    member.close()
    assert supervisor.receive() == [(Serve([VERSION]), [])]
    with pytest.raises(LinkClosedError):
        supervisor.receive()
    supervisor.send(Detach(1, "", ""))  # no error: receive says it


def test_a_message_that_this_end_does_not_expect_is_refused(pair: Pair) -> None:
    supervisor, member = pair
    member.send(Detach(1, "", ""))
    with pytest.raises(FrameError):
        supervisor.receive()
