"""The result cache under any order of everything: who waits is answered once, and by the version it is to meet."""

from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stream_workers.batching.work import Answer, Expired, Rejected, ServedVersion, WorkItem
from stream_workers.caching.answer_store import ENTRY_OVERHEAD_BYTES, AnswerStore
from stream_workers.caching.recall import Recalled
from tests.unit.stream_workers.cache_rig import RAN, TROUBLE, CacheRig

PAYLOADS = (b"1", b"2")
ARRIVALS = st.lists(
    st.tuples(st.sampled_from(PAYLOADS), st.integers(0, 2), st.sampled_from([0, 0, 0, 1])), min_size=1, max_size=4
)


def output_of(item: WorkItem, version: ServedVersion) -> bytes:
    return b'"%b %b"' % (item.request.payload, version.version.encode())


class AnyOrder(RuleBasedStateMachine):
    """Records arrive, run, are refused, expire, go with their partition; versions switch; Redis answers or does not."""

    @initialize(remote=st.booleans())
    def begin(self, remote: bool) -> None:
        self.rig = CacheRig(remote=remote, redis_wait_ms=5, min_hit_rate=0)
        # Room for one answer, so that Redis is asked.
        self.rig.cache._store = AnswerStore(ENTRY_OVERHEAD_BYTES + 10)
        self.now = 10.0
        self.waiting: dict[WorkItem, None] = {}
        """Ours and not settled."""
        self.queue: list[WorkItem] = []
        self.running: list[tuple[WorkItem, ServedVersion]] = []
        self.answered: list[WorkItem] = []

    def check_hits(self, items: Sequence[WorkItem]) -> None:
        for item in items:
            assert isinstance(item.outcome, Answer)
            assert item.outcome.version == item.version
            assert item.outcome.output == output_of(item, item.version)

    def receive(self, found: Recalled) -> None:
        self.check_hits(found.answered)
        assert all(item.outcome is None and item in self.waiting for item in found.to_queue)
        assert not set(self.queue) & set(found.to_queue)
        self.queue += found.to_queue
        self.answered += found.answered

    @rule(arrivals=ARRIVALS)
    def arrive(self, arrivals: list[tuple[bytes, int, int]]) -> None:
        items = [self.rig.record(payload, partition, priority=priority) for payload, partition, priority in arrivals]
        self.waiting |= dict.fromkeys(items)
        self.receive(self.rig.cache.look_up(items, self.now))

    @precondition(lambda self: self.queue)
    @rule(count=st.integers(1, 3))
    def submit(self, count: int) -> None:
        batch, self.queue = self.queue[:count], self.queue[count:]
        self.running += [(item, item.version) for item in batch if item.outcome is None]

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 5), refuse=st.sampled_from([False, False, True]))
    def finish(self, which: int, refuse: bool) -> None:
        item, version = self.running.pop(which % len(self.running))
        if item.outcome is None:
            item.outcome = Rejected(TROUBLE, version) if refuse else Answer(output_of(item, version), version, RAN)
            self.answered.append(item)

    @precondition(lambda self: self.waiting)
    @rule(which=st.integers(0, 5))
    def expire(self, which: int) -> None:
        item = list(self.waiting)[which % len(self.waiting)]
        if item.outcome is None:
            item.outcome = Expired(item.version, RAN)
            self.answered.append(item)

    @rule(partition=st.integers(0, 2), lose_running=st.booleans())
    def revoke(self, partition: int, lose_running: bool) -> None:
        def stays(item: WorkItem) -> bool:
            return item.request.partition != partition

        self.queue = [item for item in self.queue if stays(item)]
        self.waiting = {item: None for item in self.waiting if stays(item)}
        if lose_running:
            self.running = [(item, version) for item, version in self.running if stays(item)]
        self.rig.cache.drop(("requests", partition))

    @rule(number=st.integers(1, 2), at_once=st.booleans())
    def switch(self, number: int, at_once: bool) -> None:
        """With `at_once`, what is in no batch meets it too."""
        running = {item for item, _ in self.running}
        queued = [item for item in self.waiting if item.outcome is None and item not in running]
        self.rig.maker.switch(number, *(queued if at_once else ()))

    @precondition(lambda self: self.rig.remote is not None)
    @rule(takes_questions=st.sampled_from([True, True, False]), miss=st.booleans())
    def redis(self, takes_questions: bool, miss: bool) -> None:
        assert self.rig.remote is not None
        self.rig.remote.takes_questions = takes_questions
        if self.rig.remote.asked:
            self.rig.remote.reply(miss=miss)

    @rule(seconds=st.sampled_from([0.001, 0.02]))
    def turn(self, seconds: float) -> None:
        """Sweep and settle, in the worker's order."""
        self.now += seconds
        self.receive(self.rig.cache.sweep(self.now))
        answered, self.answered = self.answered, []
        shared = self.rig.cache.note_answers(answered, self.now)
        self.check_hits(shared)
        assert all(item in self.waiting for item in shared)
        settled = [*answered, *shared]
        assert len(set(settled)) == len(settled)
        for item in settled:
            if item not in shared and item not in self.waiting:
                continue  # its partition went before it was settled: the ledger fences it
            del self.waiting[item]

    @invariant()
    def nobody_waits_for_nobody(self) -> None:
        at_work = {*self.queue, *self.answered, *(item for item, _ in self.running)}
        for flight in self.rig.cache._flights._flights.values():
            asked = {asked.item for asked in self.rig.cache._asked.values()}
            assert set(flight.leaders) & (at_work | asked)

    def teardown(self) -> None:
        if not hasattr(self, "rig"):
            return
        for _ in range(len(self.waiting) + 3):
            self.turn(0.02)
            self.submit(len(self.queue))
            while self.running:
                self.finish(0, refuse=False)
        self.turn(0.02)
        assert not self.waiting
        assert not self.rig.cache.holds
        assert len(self.rig.cache._flights) == 0


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAnyOrder = AnyOrder.TestCase
