"""The result cache from the worker's side: who is answered, who waits, who is handed out, and that nobody is lost."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from prometheus_client import CollectorRegistry

from schemas.records import ErrorDetail, Stage, Timings
from schemas.settings import CacheSettings
from stream_workers.answer_cache import AnswerCache
from stream_workers.batching.work import Answer, Expired, Rejected, ServedVersion, WorkItem
from stream_workers.caching.answer_store import ENTRY_OVERHEAD_BYTES, AnswerStore
from stream_workers.caching.hit_watch import SAMPLE_OF, WINDOW
from stream_workers.caching.recall import NoAnswerCache, Recalled
from stream_workers.metrics import WorkerMetrics
from tests.unit.stream_workers.builders import request

RAN = Timings(1.0, 2.0, 4)
TROUBLE = ErrorDetail(stage=Stage.MODEL, code="model_failure", error_class="E", message="no")


class PlayedMaker:
    """The model, as far as the cache asks: it may switch versions."""

    def __init__(self) -> None:
        self.version: ServedVersion | None = ServedVersion("m", "v1", 1)
        self.identity = b"1" * 32

    def active_version(self) -> ServedVersion | None:
        return self.version

    def answer_identity(self) -> bytes:
        return self.identity

    def switch(self, number: int) -> None:
        epoch = self.version.epoch + 1 if self.version else 1
        self.version = ServedVersion("m", f"v{number}", epoch)
        self.identity = str(number).encode() * 32


class PlayedRemote:
    """Redis, as far as the cache asks: it answers when the test says so."""

    def __init__(self) -> None:
        self.stored: dict[bytes, bytes] = {}
        self.asked: list[bytes] = []
        self.takes_questions = True
        self._replies: list[tuple[bytes, bytes | None]] = []

    def ask(self, keys: Sequence[bytes]) -> bool:
        if self.takes_questions:
            self.asked += keys
        return self.takes_questions

    def take_replies(self) -> list[tuple[bytes, bytes | None]]:
        replies, self._replies = self._replies, []
        return replies

    def put(self, key: bytes, output: bytes) -> None:
        self.stored[key] = output

    def take_faults(self) -> Mapping[str, int]:
        return {}

    def reply(self, *, miss: bool = False) -> None:
        key = self.asked.pop(0)
        self._replies.append((key, None if miss else self.stored.get(key)))


class Rig:
    def __init__(self, *, remote: bool = False, **varied: object) -> None:
        self.maker, self.metrics = PlayedMaker(), WorkerMetrics(CollectorRegistry())
        self.remote = PlayedRemote() if remote else None
        self.cache = AnswerCache(CacheSettings(**varied), self.maker, self.metrics.cache, self.remote)  # type: ignore[arg-type]
        self._offset = 0

    def record(self, payload: bytes = b"{}", partition: int = 0, **varied: object) -> WorkItem:
        self._offset += 1
        priority = varied.pop("priority", 0)
        made = request(self._offset, partition, payload=payload, **varied)  # type: ignore[arg-type]
        return WorkItem(made, 1, 10.0, "s", len(payload), priority)  # type: ignore[arg-type]

    def run(self, *items: WorkItem, output: bytes = b"1", now: float = 12.0) -> list[WorkItem]:
        """The model answers these under the active version."""
        assert self.maker.version is not None
        for item in items:
            item.outcome = Answer(output, self.maker.version, RAN)
        return self.cache.note_answers(items, now)

    def counted(self, result: str) -> float:
        return self.metrics.cache.lookups.labels(result)._value.get()


def test_a_repeat_is_answered_with_the_same_bytes_at_once() -> None:
    rig = Rig()
    first, again = rig.record(), rig.record(key=b"other")
    assert rig.cache.look_up([first], 10.0).to_queue == [first]
    rig.run(first, output=b'{"a": 1}')
    found = rig.cache.look_up([again], 10.5)
    assert (found.answered, found.to_queue) == ([again], [])
    assert again.outcome == Answer(b'{"a": 1}', ServedVersion("m", "v1", 1), Timings(500.0, 0.0, 0))
    assert (rig.counted("local"), rig.counted("miss")) == (1, 1)


@pytest.mark.parametrize("varied", [{"payload": b"[]"}, {"content_type": "text/plain"}])
def test_other_bytes_or_another_content_type_are_no_repeat(varied: dict[str, object]) -> None:
    rig = Rig()
    first, other = rig.record(), rig.record(**varied)  # type: ignore[arg-type]
    rig.cache.look_up([first], 10.0)
    rig.run(first)
    assert rig.cache.look_up([other], 10.0).to_queue == [other]


def test_repeats_in_flight_wait_for_the_first_and_are_answered_with_it() -> None:
    rig = Rig()
    first, second, third = rig.record(), rig.record(), rig.record(partition=1)
    assert rig.cache.look_up([first, second], 10.0).to_queue == [first]
    assert rig.cache.look_up([third], 10.1).to_queue == []
    assert rig.run(first, output=b"7", now=12.0) == [second, third]
    assert third.outcome == Answer(b"7", ServedVersion("m", "v1", 1), Timings(2000.0, 0.0, 0))
    assert rig.counted("waited") == 2


def test_a_hit_after_a_rollback_names_the_epoch_that_serves_now() -> None:
    rig = Rig()
    first, between, again = (rig.record() for _ in range(3))
    rig.cache.look_up([first], 10.0)
    rig.run(first)
    rig.maker.switch(2)
    assert rig.cache.look_up([between], 10.0).to_queue == [between]
    rig.maker.switch(1)
    assert rig.cache.look_up([again], 10.0).answered == [again]
    assert again.outcome.version == ServedVersion("m", "v1", 3)  # type: ignore[union-attr]


def test_an_answer_of_the_version_before_a_switch_is_given_to_nobody_else() -> None:
    rig = Rig()
    first, waiting = rig.record(), rig.record()
    rig.cache.look_up([first, waiting], 10.0)
    made_by = rig.maker.version
    assert made_by is not None
    rig.maker.switch(2)
    newcomer = rig.record()
    assert rig.cache.look_up([newcomer], 10.0).to_queue == [newcomer]
    first.outcome = Answer(b"old", made_by, RAN)
    assert rig.cache.note_answers([first], 11.0) == []
    # It waits again, now for the one that meets the new version.
    assert rig.cache.sweep(11.0).to_queue == []
    assert rig.run(newcomer, output=b"new") == [waiting]
    assert waiting.outcome.output == b"new"  # type: ignore[union-attr]


def test_a_record_that_was_queued_at_a_switch_answers_those_behind_it_by_the_new_version() -> None:
    rig = Rig()
    first, waiting, later = (rig.record() for _ in range(3))
    rig.cache.look_up([first, waiting], 10.0)
    rig.maker.switch(2)
    assert rig.run(first, output=b"new") == [waiting]
    assert rig.cache.look_up([later], 10.0).answered == [later]


def test_another_identity_of_the_same_version_is_another_answer() -> None:
    rig = Rig()
    first, again = rig.record(), rig.record()
    rig.cache.look_up([first], 10.0)
    rig.run(first)
    rig.maker.identity = b"x" * 32
    assert rig.cache.look_up([again], 10.0).to_queue == [again]


def test_when_the_first_expires_the_next_in_line_runs_and_the_others_wait_for_it() -> None:
    rig = Rig()
    first, second, third = (rig.record() for _ in range(3))
    rig.cache.look_up([first, second, third], 10.0)
    first.outcome = Expired(ServedVersion("m", "v1", 1), RAN)
    assert rig.cache.note_answers([first], 11.0) == []
    assert rig.cache.holds
    assert rig.cache.sweep(11.0).to_queue == [second]
    assert not rig.cache.holds
    assert rig.run(second) == [third]


def test_when_the_first_is_refused_all_others_meet_the_model_at_once() -> None:
    rig = Rig()
    first, second, third = (rig.record() for _ in range(3))
    rig.cache.look_up([first, second, third], 10.0)
    first.outcome = Rejected(TROUBLE, ServedVersion("m", "v1", 1))
    assert rig.cache.note_answers([first], 11.0) == []
    assert rig.cache.sweep(11.0).to_queue == [second, third]


def test_followers_of_a_refused_leader_go_with_their_partition_too() -> None:
    rig = Rig()
    first, gone, left = rig.record(partition=0), rig.record(partition=1), rig.record(partition=2)
    rig.cache.look_up([first, gone, left], 10.0)
    first.outcome = Rejected(TROUBLE, ServedVersion("m", "v1", 1))
    rig.cache.note_answers([first], 11.0)
    rig.cache.drop(("requests", 1))
    assert rig.cache.sweep(11.0).to_queue == [left]


def test_a_follower_whose_deadline_has_passed_keeps_its_outcome() -> None:
    rig = Rig()
    first, second = rig.record(), rig.record()
    rig.cache.look_up([first, second], 10.0)
    expired = second.outcome = Expired(ServedVersion("m", "v1", 1), RAN)
    rig.cache.note_answers([second], 11.0)
    assert rig.run(first) == []
    assert second.outcome is expired


def test_a_revoked_leader_is_followed_by_the_next_of_another_partition() -> None:
    rig = Rig()
    gone, gone_too, left, behind = (rig.record(partition=number) for number in (0, 0, 1, 1))
    rig.cache.look_up([gone, gone_too, left, behind], 10.0)
    rig.cache.drop(("requests", 0))
    assert rig.cache.sweep(11.0).to_queue == [left]
    assert rig.run(gone) == [], "its late answer is for nobody any more"
    assert rig.run(left) == [behind]


def test_who_is_more_urgent_does_not_wait_for_who_is_less() -> None:
    rig = Rig()
    slow, urgent = rig.record(priority=1), rig.record(priority=0)
    assert rig.cache.look_up([slow, urgent], 10.0).to_queue == [slow, urgent]


def test_an_answer_above_the_bound_is_shared_and_not_kept() -> None:
    rig = Rig(max_output_bytes=64)
    first, second, later = (rig.record() for _ in range(3))
    rig.cache.look_up([first, second], 10.0)
    assert rig.run(first, output=b'"' + b"x" * 63 + b'"') == [second]
    assert rig.cache.look_up([later], 10.0).to_queue == [later]


def test_nothing_is_kept_of_a_model_that_does_not_declare_it() -> None:
    rig = Rig()
    rig.maker.identity = b""
    first, again = rig.record(), rig.record()
    assert rig.cache.look_up([first], 10.0).to_queue == [first]
    rig.run(first)
    assert rig.cache.look_up([again], 10.0).to_queue == [again]
    assert rig.counted("undeclared") == 2


def test_unique_records_are_bypassed_after_a_while() -> None:
    rig = Rig()
    for number in range(2 * WINDOW * SAMPLE_OF):
        one = rig.record(b"%d" % number * 30)
        assert rig.cache.look_up([one], 10.0).to_queue == [one]
        rig.run(one)
    assert rig.counted("bypassed") > 0.7 * WINDOW * SAMPLE_OF


def test_the_cache_that_is_off_lets_everything_through() -> None:
    cache, one = NoAnswerCache(), Rig().record()
    assert cache.look_up([one], 0.0).to_queue == [one]
    assert cache.note_answers([one], 0.0) == []
    assert cache.sweep(0.0).to_queue == []
    assert not cache.holds


# -- with Redis behind it ----------------------------------------------------------------------------------------------


def test_an_answer_that_another_member_stored_is_found_and_kept() -> None:
    first, second = Rig(remote=True), Rig(remote=True)
    assert first.remote is not None
    assert second.remote is not None
    made, found, follower, later = (second.record() for _ in range(4))
    first.cache.look_up([made], 10.0)
    first.run(made, output=b"5")
    second.remote.stored = first.remote.stored
    assert second.cache.look_up([found, follower], 10.0).to_queue == []
    assert second.cache.holds
    second.remote.reply()
    assert second.cache.sweep(10.001).answered == [found, follower]
    assert found.outcome.output == follower.outcome.output == b"5"  # type: ignore[union-attr]
    assert second.cache.look_up([later], 10.0).answered == [later]
    assert (second.counted("redis"), second.counted("local")) == (1, 1)


def test_a_miss_in_redis_goes_to_the_model() -> None:
    rig = Rig(remote=True)
    assert rig.remote is not None
    one, follower = rig.record(), rig.record()
    rig.cache.look_up([one, follower], 10.0)
    rig.remote.reply()
    assert rig.cache.sweep(10.001).to_queue == [one]
    assert rig.run(one) == [follower]
    assert list(rig.remote.stored.values()) == [b"1"]


def test_a_reply_that_does_not_come_in_time_is_a_miss() -> None:
    rig = Rig(remote=True, redis_wait_ms=5)
    assert rig.remote is not None
    one = rig.record()
    rig.cache.look_up([one], 10.0)
    assert rig.cache.sweep(10.004).to_queue == []
    assert rig.cache.sweep(10.006).to_queue == [one]
    rig.remote.reply()
    assert not rig.cache.holds
    assert rig.cache.sweep(10.1).answered == []


def test_a_redis_that_takes_no_questions_costs_no_wait() -> None:
    rig = Rig(remote=True)
    assert rig.remote is not None
    rig.remote.takes_questions = False
    one = rig.record()
    assert rig.cache.look_up([one], 10.0).to_queue == [one]
    assert rig.counted("miss") == 1


def test_a_reply_for_the_version_before_a_switch_answers_nobody() -> None:
    rig = Rig(remote=True)
    assert rig.remote is not None
    one = rig.record()
    rig.cache.look_up([one], 10.0)
    rig.remote.stored = {rig.remote.asked[0]: b"old"}
    rig.maker.switch(2)
    rig.remote.reply()
    assert rig.cache.sweep(10.001).to_queue == [one]


# -- any order of everything -------------------------------------------------------------------------------------------

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
        self.rig = Rig(remote=remote, redis_wait_ms=5, min_hit_rate=0)
        # Room for one answer, so that Redis is asked.
        self.rig.cache._store = AnswerStore(ENTRY_OVERHEAD_BYTES + 10)
        self.now = 10.0
        self.waiting: dict[WorkItem, None] = {}
        """Ours and not settled."""
        self.queue: list[WorkItem] = []
        self.running: list[tuple[WorkItem, ServedVersion]] = []
        self.answered: list[WorkItem] = []

    @property
    def version(self) -> ServedVersion:
        assert self.rig.maker.version is not None
        return self.rig.maker.version

    def check_hits(self, items: Sequence[WorkItem]) -> None:
        for item in items:
            assert isinstance(item.outcome, Answer)
            assert item.outcome.version == self.version
            assert item.outcome.output == output_of(item, self.version)

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
        self.running += [(item, self.version) for item in batch if item.outcome is None]

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
            item.outcome = Expired(self.version, RAN)
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

    @rule(number=st.integers(1, 2))
    def switch(self, number: int) -> None:
        self.rig.maker.switch(number)

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
