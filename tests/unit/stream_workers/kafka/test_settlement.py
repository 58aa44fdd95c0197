"""The owner of what leaves: exactly once in spite of failed transactions, lost partitions and stale identities.

The thread is driven step by step: `_wait` and `_step` are its two verbs.
"""

import pytest

from schemas.errors import FencedError, SettlementError
from schemas.version_cuts import VersionCut
from stream_workers.batching.commit_pace import CommitPace
from stream_workers.batching.offset_ledger import Frontier, Settled
from stream_workers.batching.work import WorkItem
from stream_workers.kafka.group_member import GroupSnapshot
from stream_workers.kafka.outcome_encoding import OutRecord
from stream_workers.kafka.settlement import MAX_FAILURES, Settlement
from tests.fakes.fake_outcome_writer import FakeOutcomeWriter
from tests.unit.stream_workers.builders import answered, item

P0, P1 = ("requests", 0), ("requests", 1)


def encode(one: WorkItem | VersionCut) -> OutRecord:
    if isinstance(one, VersionCut):
        return OutRecord("control", one.partition, b"", b"", [])
    return OutRecord("results", one.request.partition, None, str(one.request.offset).encode(), [])


class Rig:
    def __init__(self) -> None:
        self.now = 0.0
        self.writer = FakeOutcomeWriter()
        self.settlement = Settlement(
            self.writer,
            encode,
            pace=CommitPace(0.1),
            hold_seconds=5.0,
            clock=lambda: self.now,
        )
        self.settlement.own({P0: 1, P1: 1})
        self.serial = 0
        self.identify()

    def identify(self) -> None:
        self.serial += 1
        self.settlement.identify(GroupSnapshot(None, self.serial))

    def offer(self, partition: int, *offsets: int, assignment: int = 1) -> None:
        items = [answered(item(n, partition, assignment=assignment)) for n in offsets]
        frontier = Frontier(assignment, offsets[-1] + 1)
        self.settlement.offer(Settled(items, {("requests", partition): frontier}))

    def step(self, seconds: float = 0.2) -> None:
        self.settlement._wait()
        self.settlement._step()
        self.now += seconds

    def visible(self) -> list[tuple[int, bytes | None]]:
        return [(record.partition, record.value) for record in self.writer.visible]


def test_many_groups_share_one_commit_per_interval() -> None:
    rig = Rig()
    rig.offer(0, 0, 1)
    rig.step(0.05)
    rig.offer(1, 7)
    rig.step(0.05)
    assert rig.writer.commits == []
    rig.offer(0, 2)
    rig.step()
    assert rig.writer.commits == [{P0: 3, P1: 8}]
    assert rig.visible() == [(0, b"0"), (0, b"1"), (1, b"7"), (0, b"2")]
    (commit,) = rig.settlement.take_commits()
    assert len(commit.items) == 4
    assert rig.settlement.take_commits() == []


@pytest.mark.parametrize("step", ["begin", "send", "commit"])
def test_a_failed_transaction_is_sent_again_whole_with_a_fresh_producer_and_identity(step: str) -> None:
    rig = Rig()
    rig.writer.fail[step] = 1
    rig.offer(0, 0, 1)
    for _ in range(3):
        rig.step()
    # The identity that failed is never used again, however often it is tried.
    assert rig.writer.commits == []
    rig.identify()
    for _ in range(3):
        rig.step()
    assert rig.visible() == [(0, b"0"), (0, b"1")]
    assert rig.writer.commits == [{P0: 2}]
    assert rig.writer.serials == [2]
    assert step == "begin" or "start_over" in rig.writer.calls


def test_an_identity_found_while_a_commit_with_an_older_one_failed_is_good_to_use() -> None:
    rig = Rig()
    rig.offer(0, 0)
    rig.writer.fail["commit"] = 1
    # The worker finds out who it is now while the commit with its former identity is under way.
    rig.writer.on_commit = rig.identify
    for _ in range(4):
        rig.step()
    assert rig.writer.serials == [2]
    assert rig.visible() == [(0, b"0")]


def test_a_transaction_that_is_refused_for_ever_ends_the_worker_instead_of_looping() -> None:
    rig = Rig()
    rig.writer.fail["commit"] = 1000
    rig.offer(0, 0)

    def try_again_and_again() -> None:
        for _ in range(1000):
            rig.identify()
            rig.step(0.5)

    with pytest.raises(SettlementError):
        try_again_and_again()
    assert rig.writer.calls.count("commit") == MAX_FAILURES
    assert rig.now > 20


def test_nothing_is_committed_without_an_identity_and_the_transaction_does_not_grow_old() -> None:
    rig = Rig()
    rig.settlement.identify(None)
    rig.offer(0, 0)
    rig.step()
    rig.step()
    assert rig.writer.commits == []
    rig.now += 6
    rig.step()
    assert "start_over" in rig.writer.calls
    rig.identify()
    rig.step()
    rig.step()
    assert rig.visible() == [(0, b"0")]


def test_outcomes_of_a_lost_partition_are_dropped_and_the_others_leave() -> None:
    rig = Rig()
    rig.offer(0, 0)
    rig.offer(1, 5)
    rig.step(0.01)
    rig.settlement.own({P1: 1})
    rig.step()
    rig.step()
    assert "start_over" in rig.writer.calls
    assert rig.visible() == [(1, b"5")]
    assert rig.writer.committed == {P1: 6}


def test_outcomes_of_an_earlier_assignment_are_dropped_even_if_the_partition_came_back() -> None:
    rig = Rig()
    rig.offer(0, 0)
    rig.settlement.own({P0: 2})
    rig.step()
    rig.offer(0, 0, 1, assignment=2)
    rig.step()
    rig.step()
    assert rig.visible() == [(0, b"0"), (0, b"1")]
    assert rig.writer.committed == {P0: 2}


def test_a_failure_after_the_commit_never_sends_it_again() -> None:
    rig = Rig()
    rig.writer.fatal = "settle_doubts"
    rig.offer(0, 0)
    rig.step(0.2)
    with pytest.raises(FencedError):
        rig.step()
    assert rig.settlement._held == []
    assert rig.visible() == [(0, b"0")]


def test_a_fenced_writer_ends_the_thread_and_the_worker_learns_why() -> None:
    rig = Rig()
    rig.writer.fatal = "commit"
    rig.settlement.start()
    rig.offer(0, 0)
    rig.now += 1
    assert rig.settlement.flush(10.0) is False
    with pytest.raises(FencedError):
        rig.settlement.check()


def test_flush_returns_when_everything_offered_is_committed() -> None:
    rig = Rig()
    rig.settlement.start()
    rig.offer(0, 0, 1, 2)
    assert rig.settlement.flush(10.0) is True
    assert rig.writer.committed == {P0: 3}
    assert rig.settlement.stop(10.0) is True
    assert rig.writer.calls[-1] == "close"


def test_an_offset_moves_without_any_outcome() -> None:
    rig = Rig()
    rig.settlement.offer(Settled([], {P0: Frontier(1, 9)}))
    rig.step()
    rig.step()
    assert rig.writer.committed == {P0: 9}
    assert rig.visible() == []


def test_an_identity_that_is_newer_than_the_look_at_what_is_owned_is_not_used() -> None:
    """Both change while outcomes are written: a partition is lost, and the member is back with a new identity."""
    rig = Rig()
    send = rig.writer.send

    def lose_while_writing(record: OutRecord) -> None:
        send(record)
        rig.settlement.own({P1: 1})
        rig.identify()

    rig.offer(0, 0)
    rig.step(0.0)
    rig.identify()
    rig.writer.send = lose_while_writing  # type: ignore[method-assign]
    rig.now += 0.2
    rig.offer(1, 5)
    rig.step()
    # With the newer one the broker would have taken the offset of a partition that another member has by now.
    assert rig.writer.serials == [2]


def test_what_someone_waits_for_is_committed_before_the_interval_is_over() -> None:
    rig = Rig()
    rig.offer(0, 0)
    rig.settlement.offer(Settled([answered(item(1, 0))], {P0: Frontier(1, 2)}), soon=True)
    rig.step(0.01)
    assert rig.visible() == [(0, b"0"), (0, b"1")]
    rig.offer(0, 2)
    rig.step(0.01)
    assert rig.visible() == [(0, b"0"), (0, b"1")], "the hurry was over with its commit"


def test_a_cut_goes_before_the_outcomes_of_its_group_and_with_the_epoch_beside_the_offset() -> None:
    rig = Rig()
    cut = VersionCut("m", "requests", 0, 2, 5, 1)
    items = [answered(item(5, 0))]
    rig.settlement.offer(Settled(items, {P0: Frontier(1, 6, 2)}, [cut]))
    rig.step(0.2)
    rig.step(0.2)
    assert [record.topic for record in rig.writer.visible] == ["control", "results"]
    assert rig.writer.calls.index("settle_sent") == rig.writer.calls.index("send") + 1
    assert rig.writer.epochs == {P0: 2}


def test_the_cut_of_a_partition_that_was_taken_away_is_dropped_with_it() -> None:
    rig = Rig()
    cuts = [VersionCut("m", "requests", number, 2, 5, 1) for number in (0, 1)]
    rig.settlement.offer(Settled([], {P0: Frontier(1, 5), P1: Frontier(1, 5)}, cuts))
    rig.settlement.own({P1: 1})
    rig.step(0.2)
    rig.step(0.2)
    assert [record.partition for record in rig.writer.visible] == [1]
    assert rig.writer.committed == {P1: 5}
