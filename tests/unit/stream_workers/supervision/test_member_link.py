"""What a member says to its supervisor."""

from stream_workers.batching.work import ServedVersion
from stream_workers.links.control_channel import ControlChannel, make_pair
from stream_workers.links.messages import (
    Candidate,
    FromMember,
    Hello,
    Refused,
    Serve,
    ToMember,
    from_member_decoder,
    to_member_decoder,
)
from stream_workers.supervision.member_link import MemberLink

A, B = ServedVersion("m", "a", 1), ServedVersion("m", "b", 2)


def pair(declared: Serve | None = None) -> tuple[MemberLink, ControlChannel[FromMember]]:
    ours, theirs = make_pair()
    channel: ControlChannel[ToMember] = ControlChannel(theirs, to_member_decoder)
    return MemberLink(channel, Hello("w-0", 0, b"{}", A, declared)), ControlChannel(ours, from_member_decoder)


def test_a_wish_is_sent_when_it_is_news_and_once_by_every_member() -> None:
    link, supervisor = pair(Serve([A]))
    assert link.declared == Serve([A])
    for _ in range(2):
        link.serve([A])
    link.serve([B, A], Candidate("c1", ["c"]))
    link.serve([B, A])
    sent = [message for message, _ in supervisor.receive()]
    assert sent == [Serve([A]), Serve([B, A], Candidate("c1", ["c"])), Serve([B, A])]
    link.close()
    supervisor.close()


def test_refusals_wait_for_the_member_and_never_reach_the_pool() -> None:
    link, supervisor = pair()
    supervisor.send(Refused(B, "not there"))  # type: ignore[arg-type]  # the other end of the link
    assert link.receive() == []
    assert link.refused == [Refused(B, "not there")]
    link.close()
    supervisor.close()
