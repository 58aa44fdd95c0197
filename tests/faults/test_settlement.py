"""The settlement on a real broker, where the raw clients fail: late messages, stale groups, lost identities."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, TopicPartition

from schemas.errors import FencedError, SettlementError
from schemas.settings import KafkaSettings, Settings, TopicSettings, WorkerSettings
from schemas.version_cuts import VersionCut
from stream_workers.batching.commit_pace import CommitPace
from stream_workers.batching.offset_ledger import Frontier, Settled
from stream_workers.kafka.committed_offsets import CommittedOffset
from stream_workers.kafka.cut_reader import CutReader
from stream_workers.kafka.group_member import GroupMember, GroupSnapshot
from stream_workers.kafka.outcome_encoding import OutcomeEncoder, OutRecord
from stream_workers.kafka.outcome_writers import TransactionalWriter
from stream_workers.kafka.settlement import Settlement
from tests.faults.conftest import Rig
from tests.faults.request_faults import ApiKey
from tests.faults.worker_process import wait_until
from tests.unit.stream_workers.builders import answered, item

PATIENCE_SECONDS = 20.0


class Listener:
    def __init__(self) -> None:
        self.owned: set[tuple[str, int]] = set()
        self.committed: dict[tuple[str, int], CommittedOffset] = {}

    def on_assigned(self, partitions: Mapping[tuple[str, int], CommittedOffset]) -> None:
        self.owned |= set(partitions)
        self.committed |= partitions

    def on_revoked(self, partitions: Sequence[tuple[str, int]]) -> None:
        self.owned -= set(partitions)

    on_lost = on_revoked


class Bench:
    """One group member and one writer, in this process, with topics of their own."""

    def __init__(self, rig: Rig, prefix: str, kafka: KafkaSettings, **worker: int) -> None:
        self.rig = rig
        self.requests, self.results = f"{prefix}-requests", f"{prefix}-results"
        rig.create_topics(self.requests, partitions=2)
        rig.create_topics(self.results, f"{prefix}-dead", partitions=1)
        self.settings = Settings(
            kafka=kafka,
            topics=TopicSettings(requests=(self.requests,), results=self.results, dead_letters=f"{prefix}-dead"),
            worker=WorkerSettings(group=prefix, **worker),  # type: ignore[arg-type]  # whole numbers only
        )
        self.writer = TransactionalWriter(self.settings, "w-0")
        self.member = GroupMember(self.settings, "w-0")
        self.listener = Listener()

    def join(self) -> None:
        self.member.join(self.listener)
        until(lambda: bool(self.member.poll(10, 0.1)) and len(self.listener.owned) == 2)

    def identity(self) -> GroupSnapshot:
        self.member.poll(10, 0.05)
        snapshot = self.member.snapshot()
        if snapshot is None:
            raise AssertionError("not a member")
        return snapshot

    def send(self, *names: str) -> None:
        for name in names:
            self.writer.send(OutRecord(self.results, 0, None, name.encode(), []))

    def visible(self) -> list[str]:
        """Everything that a read_committed reader sees, from the start to the end of the result topic."""
        config = {"group.id": "reader", "isolation.level": "read_committed", "enable.partition.eof": True}
        reader = Consumer({"bootstrap.servers": self.rig.stack.bootstrap, **config})
        reader.assign([TopicPartition(self.results, 0, 0)])
        seen: list[str] = []
        while (message := reader.poll(10)) is not None and message.error() is None:
            seen.append((message.value() or b"").decode())
        reader.close()
        return seen

    def committed(self, partition: int) -> int:
        reader = Consumer({"bootstrap.servers": self.rig.stack.bootstrap, "group.id": self.settings.worker.group})
        (position,) = reader.committed([TopicPartition(self.requests, partition)], timeout=10)
        reader.close()
        return position.offset

    def close(self) -> None:
        self.writer.close()
        self.member.leave()


def until(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > give_up_at:
            raise AssertionError("did not happen in time")
        time.sleep(0.01)


@contextmanager
def bench(rig: Rig, prefix: str, kafka: KafkaSettings, **worker: int) -> Iterator[Bench]:
    made = Bench(rig, prefix, kafka, **worker)
    made.writer.open()
    try:
        made.join()
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_late_commit_message_never_commits_the_next_transaction(rig: Rig, unique: str, nth: int) -> None:
    with bench(rig, unique, rig.proxied) as b:
        held = rig.proxy.hold(ApiKey.END_TXN, nth, deliver_after=None)
        for number in range(1, nth + 1):
            b.writer.begin()
            b.send(f"kept-{number}")
            b.writer.commit({(b.requests, 0): Frontier(1, number)}, b.identity())
            b.writer.settle_doubts()
        assert held.struck.is_set()
        assert b.writer.retirements == 1
        b.writer.begin()
        b.send("aborted")
        b.identity()
        # The first copy of the commit message arrives now, in the middle of the next transaction.
        held.release()
        assert held.finished.wait(PATIENCE_SECONDS)
        b.writer.start_over()
        b.writer.begin()
        b.send("after")
        b.writer.commit({(b.requests, 0): Frontier(1, 9)}, b.identity())
        assert b.visible() == [*(f"kept-{number}" for number in range(1, nth + 1)), "after"]
        assert b.committed(0) == 9


def test_a_late_offset_message_never_turns_an_offset_back(rig: Rig, unique: str) -> None:
    with bench(rig, unique, rig.proxied) as b:
        held = rig.proxy.hold(ApiKey.TXN_OFFSET_COMMIT, 1, deliver_after=None)
        b.writer.begin()
        b.send("one")
        b.writer.commit({(b.requests, 0): Frontier(1, 1)}, b.identity())
        b.writer.settle_doubts()
        b.writer.begin()
        b.send("two")
        snapshot = b.identity()
        held.release()
        assert held.finished.wait(PATIENCE_SECONDS)
        b.writer.commit({(b.requests, 0): Frontier(1, 2)}, snapshot)
        assert b.committed(0) == 2
        assert b.visible() == ["one", "two"]


def test_offsets_of_a_refused_transaction_do_not_ride_along_with_the_next(rig: Rig, unique: str) -> None:
    with bench(rig, unique, rig.direct) as b:
        stale = b.identity()
        # Another member comes: the generation that `stale` names is over.
        second = GroupMember(b.settings, "w-1")
        other = Listener()
        second.join(other)
        until(lambda: bool(b.member.poll(1, 0.05)) and bool(second.poll(1, 0.05)) and bool(other.owned))
        b.writer.begin()
        b.send("refused")
        with pytest.raises(SettlementError):
            b.writer.commit({(b.requests, 0): Frontier(1, 100)}, stale)
        b.writer.start_over()
        b.writer.begin()
        b.send("accepted")
        b.writer.commit({(b.requests, 1): Frontier(1, 7)}, b.identity())
        assert b.committed(0) < 0
        assert b.committed(1) == 7
        assert b.visible() == ["accepted"]
        second.leave()


def test_nothing_is_committed_without_an_identity_in_the_group(rig: Rig, unique: str) -> None:
    with bench(rig, unique, rig.direct, max_poll_interval_ms=3000, session_timeout_ms=2000, drain_seconds=0.5) as b:
        assert b.member.snapshot() is not None
        # Not polled for longer than allowed: the membership is lost behind our back.
        until(lambda: b.member.snapshot() is None)
        settlement = Settlement(
            b.writer,
            lambda one: OutRecord(b.results, 0, None, str(one.request.offset).encode(), []),
            pace=CommitPace(0.05),
            hold_seconds=60,
        )
        settlement.own({("requests", 0): 1})
        settlement.start()
        settlement.identify(b.member.snapshot())
        settlement.offer(Settled([answered(item(0))], {("requests", 0): Frontier(1, 1)}))
        assert settlement.flush(1.0) is False
        assert b.visible() == []
        settlement.identify(None)
        settlement.own({})
        settlement.stop(5.0)


def test_a_predecessor_with_an_open_transaction_is_fenced_and_its_outcomes_stay_unseen(rig: Rig, unique: str) -> None:
    with bench(rig, unique, rig.direct) as b:
        b.writer.begin()
        b.send("of the predecessor")
        b.writer.serve()
        successor = TransactionalWriter(b.settings, "w-0")
        started = time.monotonic()
        successor.open()
        assert time.monotonic() - started < PATIENCE_SECONDS
        successor.begin()
        successor.send(OutRecord(b.results, 0, None, b"of the successor", []))
        successor.commit({(b.requests, 0): Frontier(1, 3)}, b.identity())
        with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
            b.writer.commit({(b.requests, 0): Frontier(1, 1)}, b.identity())
        assert b.visible() == ["of the successor"]
        assert b.committed(0) == 3
        successor.close()


def test_a_writer_that_is_fenced_while_nothing_is_asked_of_it_says_so(rig: Rig, unique: str) -> None:
    with bench(rig, unique, rig.direct) as b:
        b.writer.begin()
        successor = TransactionalWriter(b.settings, "w-0")
        successor.open()
        # The client adds the partition to its transaction by itself; the refusal comes with its callbacks.
        b.send("too late")
        with pytest.raises(FencedError):
            wait_until(b.writer.serve, PATIENCE_SECONDS, "the client reports that it was fenced")
        successor.close()


def test_the_epoch_that_was_reached_comes_back_with_the_committed_offset(rig: Rig, unique: str) -> None:
    with bench(rig, unique, rig.direct) as b:
        assert b.listener.committed[b.requests, 0] == CommittedOffset(-1, "")
        b.writer.begin()
        b.writer.commit({(b.requests, 0): Frontier(1, 5, 3)}, b.identity())
        b.member.commit({(b.requests, 1): Frontier(1, 6, 4)}, wait=True)
        b.member.leave()
        b.member, b.listener = GroupMember(b.settings, "w-0"), Listener()
        b.join()
        assert b.listener.committed == {
            (b.requests, 0): CommittedOffset(5, "headrace:1:e=3"),
            (b.requests, 1): CommittedOffset(6, "headrace:1:e=4"),
        }


def test_cuts_are_read_back_once_their_transaction_has_ended_and_garbage_is_counted(rig: Rig, unique: str) -> None:
    with bench(rig, unique, rig.direct) as b, ThreadPoolExecutor(1) as pool:
        rig.create_topics(f"{unique}-control", partitions=1)
        topics = b.settings.topics.model_copy(update={"control": f"{unique}-control"})
        settings = b.settings.model_copy(update={"topics": topics})
        refused: list[int] = []
        reader = CutReader(settings, "w-0", on_refused=lambda: refused.append(1))
        reader.start()
        reader.catch_up()
        encoder = OutcomeEncoder(settings, "w-0", {}, lambda _: "fp32")
        for offset, is_kept in ((7, True), (9, False)):
            cut = encoder.encode(VersionCut("model", b.requests, 0, offset, offset, 1))
            assert cut is not None
            b.writer.begin()
            b.writer.send(cut)
            b.writer.send(OutRecord(topics.control, 0, b"junk", b"{", []))
            caught_up = pool.submit(reader.catch_up)
            if is_kept:
                b.writer.commit({(b.requests, 0): Frontier(1, offset)}, b.identity())
            else:
                b.writer.start_over()
            caught_up.result(PATIENCE_SECONDS)
            reader.catch_up()
        assert reader.cuts_of((b.requests, 0)) == {7: 7}
        assert len(refused) == 1
