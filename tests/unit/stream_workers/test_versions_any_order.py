"""Any order of switches, polls, commits, rebalances, kills and clocks that step back: a replay finds the same."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_store.record_versions import PartitionVersions
from model_store.timeline import CALL_OFF_MARGIN_MS, SwitchMode, Timeline
from schemas.records import Request
from stream_workers.batching.epoch_floor import encode_floor
from stream_workers.batching.work import Answer, PartitionKey, Rejected
from stream_workers.record_versions import Attempt
from tests.fakes.fake_timeline_source import FakeCutSource
from tests.unit.stream_workers.builders import request
from tests.unit.stream_workers.worker_rig import P0, P1, Rig

PARTITIONS = (P0, P1)
LEAD_MS = 2000
NAMES = st.sampled_from(("a", "b", {"a": 1, "b": 2}))
Split = str | dict[str, int]
WAIT = st.tuples(st.just("wait"), st.sampled_from([0.02, 0.2, 1.0, 1.85, 2.1]))
SWITCH = st.tuples(st.sampled_from(["now", "exact", "exact"]), NAMES)
ACTION = st.one_of(
    *(WAIT, WAIT, SWITCH, SWITCH, st.tuples(st.just("look"))),
    st.tuples(st.sampled_from(["call_off", "commit", "kill"])),
    st.tuples(st.just("hold"), st.booleans()),
    st.tuples(st.just("move"), st.integers(0, 1)),
    st.tuples(st.just("step_back"), st.sampled_from([0, 500, 4000])),
)
COUNTS = st.tuples(st.integers(0, 5), st.integers(0, 5))
STEPS = st.tuples(ACTION, COUNTS, st.sampled_from([False, False, True]), st.integers(0, 3))
"""What happens, how many records each partition gets then, whether one is broken, and how often the loop turns."""


@dataclass
class World:
    """Kafka and Redis as they outlive a member, and the member of the moment."""

    timeline: Timeline = field(default_factory=lambda: Timeline().with_activation("a", 0, 0))
    log: dict[PartitionKey, list[Request]] = field(default_factory=lambda: {P0: [], P1: []})
    recorded: dict[PartitionKey, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    met: dict[tuple[PartitionKey, int], tuple[str, int]] = field(default_factory=dict)
    committed: dict[PartitionKey, int] = field(default_factory=dict)
    metadata: dict[PartitionKey, str] = field(default_factory=dict)
    now: float = 100.0
    back_ms: int = 0

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        cuts = FakeCutSource()
        cuts.recorded = self.recorded
        self.rig = Rig(timeline=self.timeline, cuts=cuts)
        self.rig.now, self.rig.settlement.auto = self.now, False
        self.rig.member.log, self.rig.member.committed = self.log, dict(self.committed)
        self.rig.member.metadata = dict(self.metadata)
        self.rig.pool.missing = set()
        self.look()
        self.turn(1)
        self.rig.member.assign(*PARTITIONS)

    # -- actions -------------------------------------------------------------------------------------------------------

    def append(self, number: int, count: int, broken: bool) -> None:
        log = self.log[PARTITIONS[number]]
        stamp = int(self.rig.now * 1000) - self.back_ms
        end = len(log) + count
        for offset in range(len(log), end):
            payload = b"" if broken and offset == end - 1 else b"{}"
            key = None if offset % 3 else b"key-%d" % (offset % 7)
            log.append(request(offset, number, key=key, timestamp_ms=stamp, payload=payload))

    def wait(self, seconds: float) -> None:
        self.rig.now += seconds

    def turn(self, times: int) -> None:
        self.rig.turn(times, 0.01)

    def look(self) -> None:
        looked_at = self.rig.now
        self.rig.source.look = lambda: Attempt(int(looked_at * 1000), looked_at)
        if self.timeline != self.rig.parts.versions.stamps.timeline:
            self.rig.source.publish(self.timeline)

    def now_(self, name: Split) -> None:
        self.timeline = self.timeline.with_activation(name, self.timeline.epoch, int(self.rig.now * 1000))

    def exact(self, name: Split) -> None:
        now_ms = int(self.rig.now * 1000)
        self.timeline = self.timeline.with_activation(
            name, self.timeline.epoch, now_ms, effective_from_ms=now_ms + LEAD_MS
        )

    def call_off(self) -> None:
        newest, now_ms = self.timeline.entries[-1], int(self.rig.now * 1000)
        if len(self.timeline.entries) > 1 and newest.is_armed(now_ms + CALL_OFF_MARGIN_MS):
            self.timeline = self.timeline.with_called_off(newest.epoch, now_ms)

    def hold(self, holds: bool) -> None:
        self.rig.pool.holds = holds

    def commit(self) -> None:
        settlement = self.rig.settlement
        settlement.commit()
        self.take()

    def take(self) -> None:
        """What is committed outlives the member."""
        settlement = self.rig.settlement
        for cut in settlement.cuts:
            known = self.recorded[cut.topic, cut.partition].setdefault(cut.epoch, cut.offset)
            assert known == cut.offset, f"{cut} is cut twice"
        for item in settlement.outcomes:
            assert isinstance(item.outcome, Answer | Rejected)
            key = ((item.request.topic, item.request.partition), item.request.offset)
            assert key not in self.met
            self.met[key] = (item.outcome.version.version, item.outcome.version.epoch)
        settlement.cuts, settlement.outcomes = [], []
        self.committed |= settlement.committed
        self.metadata |= {key: encode_floor(epoch) for key, epoch in settlement.epochs.items()}

    def kill(self) -> None:
        self.now = self.rig.now
        self.start()

    def move(self, number: int) -> None:
        """A partition goes and comes back, its work committed."""
        self.rig.member.revoke(PARTITIONS[number])
        self.take()
        self.rig.member.committed, self.rig.member.metadata = dict(self.committed), dict(self.metadata)
        self.rig.member.assign(PARTITIONS[number])

    def step_back(self, milliseconds: int) -> None:
        self.back_ms = milliseconds

    # -- the end -------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        self.hold(False)
        for _ in range(100):
            self.look()
            self.turn(2)
            self.commit()
            if len(self.met) == sum(map(len, self.log.values())):
                break

    def replay(self) -> dict[tuple[PartitionKey, int], tuple[str, int]]:
        """What a reader finds who knows the log, the timeline and the recorded cuts."""
        found = {}
        for key, records in self.log.items():
            place = PartitionVersions(dict(self.recorded[key]))
            for record in records:
                entry = place.meet(self.timeline, record.offset, record.timestamp_ms)
                assert entry is not None
                place_text = f"{record.topic}:{record.partition}:{record.offset}".encode()
                found[key, record.offset] = (entry.pick(record.key or place_text), entry.epoch)
        return found


@settings(max_examples=50, deadline=None)
@given(st.lists(STEPS, min_size=12, max_size=40))
def test_every_record_meets_what_a_replay_finds_and_no_partition_turns_back(steps: list[Any]) -> None:
    world = World()
    for (name, *arguments), counts, broken, turns in steps:
        getattr(world, "now_" if name == "now" else name)(*arguments)
        for number, count in enumerate(counts):
            world.append(number, count, broken)
        world.turn(turns)
    world.drain()
    assert world.met == world.replay()
    for partition in PARTITIONS:
        epochs = [world.met[partition, record.offset][1] for record in world.log[partition]]
        assert epochs == sorted(epochs)
    again = World(timeline=world.timeline, log=world.log, recorded=world.recorded, now=world.rig.now)
    again.drain()
    assert again.met == world.met


@pytest.mark.parametrize("mode", SwitchMode)
def test_a_kill_right_after_a_switch_was_learned_changes_nothing(mode: SwitchMode) -> None:
    world = World()
    world.append(0, 6, False)
    world.turn(2)
    (world.now_ if mode is SwitchMode.NOW else world.exact)("b")
    world.look()
    world.turn(1)
    world.kill()
    world.append(0, 3, False)
    world.drain()
    assert world.met == world.replay()
