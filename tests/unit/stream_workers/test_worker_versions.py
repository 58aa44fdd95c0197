"""What a record meets: its version is decided once it can be, pinned in a batch, and never turned back."""

import pytest

from model_store.switch_request import MIN_LEAD_MS
from model_store.timeline import Timeline
from schemas.version_cuts import VersionCut
from stream_workers.batching.work import Answer, Expired, Rejected, ServedVersion
from stream_workers.record_versions import FRESH_SECONDS, Attempt
from tests.fakes.fake_timeline_source import FakeCutSource
from tests.unit.stream_workers.worker_rig import P0, P1, Rig, fill

V1, V2 = ServedVersion("m", "v1", 1), ServedVersion("m", "v2", 2)
ONLY_V1 = Timeline().with_activation("v1", 0, 0)
NOW_V2 = ONLY_V1.with_activation("v2", 1, 90_000)


def at(instant_ms: int) -> Timeline:
    """v1, then v2 exactly at an instant."""
    return ONLY_V1.with_activation("v2", 1, instant_ms - 2000, effective_from_ms=instant_ms)


def met(rig: Rig) -> list[tuple[int, int, str, int]]:
    """Partition, offset, version and epoch of every outcome."""
    found = []
    for item in rig.settlement.outcomes:
        assert isinstance(item.outcome, Answer | Rejected | Expired)
        version = item.outcome.version
        found.append((item.request.partition, item.request.offset, version.version, version.epoch))
    return found


def run(partition: int, version: ServedVersion, *offsets: int) -> list[tuple[int, int, str, int]]:
    return [(partition, offset, version.version, version.epoch) for offset in offsets]


def started(rig: Rig, *partitions: tuple[str, int]) -> Rig:
    """Adopted and assigned."""
    rig.turn()
    rig.member.assign(*(partitions or (P0,)))
    return rig


def test_an_exact_switch_cuts_by_append_time_whatever_the_order_of_batches() -> None:
    rig = started(Rig(timeline=at(50_000)), P0, P1)
    fill(rig, 0, 3, timestamp_ms=49_999)
    fill(rig, 0, 3, timestamp_ms=50_000)
    fill(rig, 1, 2, timestamp_ms=60_000)
    rig.turn(8)
    assert sorted(met(rig)) == [*run(0, V1, 0, 1, 2), *run(0, V2, 3, 4, 5), *run(1, V2, 0, 1)]
    assert all(len({item.version for item in batch.items}) == 1 for batch in rig.pool.batches)


def test_a_broker_clock_that_steps_back_turns_nothing_back() -> None:
    rig = started(Rig(timeline=at(50_000)))
    for timestamp_ms in (49_000, 50_000, 40_000, 51_000):
        fill(rig, 0, 1, timestamp_ms=timestamp_ms)
    rig.turn(8)
    assert met(rig) == [*run(0, V1, 0), *run(0, V2, 1, 2, 3)]


def test_the_floor_travels_with_the_committed_offset() -> None:
    first = started(Rig(timeline=at(50_000), at_least_once=True))
    fill(first, 0, 2, timestamp_ms=50_000)
    first.turn(6)
    assert first.member.metadata == {P0: "headrace:1:e=2"}
    second = Rig(timeline=at(50_000))
    second.member.committed, second.member.metadata = first.member.committed, first.member.metadata
    fill(second, 0, 4, timestamp_ms=1)
    started(second).turn(6)
    assert met(second) == run(0, V2, 2, 3)


def test_text_beside_an_offset_that_is_not_ours_is_counted_and_passed_over() -> None:
    rig = Rig(timeline=at(50_000))
    rig.member.metadata = {P0: "headrace:1:e=99999999999999999999"}
    fill(rig, 0, 2, timestamp_ms=1)
    started(rig).turn(6)
    assert met(rig) == run(0, V1, 0, 1)
    assert rig.parts.metrics.versions.unknown_floors._value.get() == 1


def test_a_switch_from_now_on_cuts_behind_what_has_met_a_model_and_nothing_else() -> None:
    rig = started(Rig(timeline=ONLY_V1))
    rig.pool.holds = True
    fill(rig, 0, 12)
    rig.turn(3)
    assert len(rig.pool.batches) == 2, "eight records are in batches, four are queued"
    rig.source.publish(NOW_V2)
    rig.turn()
    rig.pool.holds = False
    rig.turn(8)
    assert met(rig) == [*run(0, V1, *range(8)), *run(0, V2, *range(8, 12))]
    assert [(cut.epoch, cut.offset) for cut in rig.settlement.cuts] == [(1, 0), (2, 8)]
    assert rig.parts.metrics.versions.restamped._value.get() == 4


def test_a_refused_record_at_the_end_of_a_backlog_leaves_none_of_it_to_the_old_version() -> None:
    rig = started(Rig(timeline=ONLY_V1))
    rig.pool.holds = True
    fill(rig, 0, 9)
    fill(rig, 0, 1, payload=b"")
    rig.turn(3)
    rig.source.publish(NOW_V2)
    rig.turn()
    rig.pool.holds = False
    rig.turn(8)
    assert met(rig) == [*run(0, V1, *range(8)), *run(0, V2, 8, 9)]


def test_an_idle_partition_is_cut_too() -> None:
    rig = Rig(timeline=ONLY_V1)
    rig.member.committed, rig.member.metadata = {P0: 7}, {P0: "headrace:1:e=1"}
    started(rig)
    rig.turn()
    rig.source.publish(NOW_V2)
    rig.turn(2)
    assert rig.settlement.cuts == [VersionCut("m", "requests", 0, 2, 7, rig.settlement.cuts[0].at_ms)]
    assert rig.settlement.committed == {P0: 7}


def test_the_cut_of_a_partition_without_a_position_waits_for_its_first_outcome() -> None:
    rig = started(Rig(timeline=ONLY_V1))
    rig.source.publish(NOW_V2)
    rig.turn(2)
    assert rig.settlement.cuts == []
    fill(rig, 0, 1)
    rig.turn(4)
    assert [(cut.epoch, cut.offset) for cut in rig.settlement.cuts] == [(1, 0), (2, 0)]
    assert met(rig) == run(0, V2, 0)


def test_a_recorded_cut_binds_the_next_owner() -> None:
    cuts = FakeCutSource()
    cuts.recorded = {P0: {1: 0, 2: 5}}
    rig = Rig(timeline=NOW_V2, cuts=cuts)
    fill(rig, 0, 8)
    started(rig).turn(8)
    assert met(rig) == [*run(0, V1, *range(5)), *run(0, V2, 5, 6, 7)]
    assert cuts.catch_ups == 1
    assert rig.settlement.cuts == []


@pytest.mark.parametrize("fault", ["raises", "kills"])
def test_a_rerun_keeps_its_version_when_another_became_active_meanwhile(fault: str) -> None:
    rig = started(Rig(timeline=ONLY_V1))

    def fails_once(_: object) -> bool:
        rig.source.publish(NOW_V2)
        return len(rig.pool.batches) == 1

    setattr(rig.pool, fault, fails_once)
    fill(rig, 0, 4)
    rig.turn(6)
    fill(rig, 0, 4)
    rig.turn(6)
    assert met(rig) == [*run(0, V1, *range(4)), *run(0, V2, *range(4, 8))]


def test_a_rerun_waits_for_the_processes_of_its_version_and_holds_up_no_other_partition() -> None:
    rig = started(Rig(timeline=ONLY_V1))

    def dies_once(_: object) -> bool:
        if len(rig.pool.batches) > 1:
            return False
        rig.source.publish(NOW_V2)
        rig.pool.missing = {"v1"}
        return True

    rig.pool.kills = dies_once
    fill(rig, 0, 4)
    rig.turn(6)
    fill(rig, 1, 4)
    rig.member.assign(P1)
    rig.turn(6)
    assert met(rig) == run(1, V2, *range(4))
    rig.pool.missing = set()
    rig.turn(6)
    assert met(rig)[4:] == run(0, V1, *range(4))


def test_records_whose_version_is_not_loaded_wait_and_hold_up_nobody() -> None:
    rig = started(Rig(timeline=at(50_000)), P0, P1)
    rig.pool.missing = {"v2"}
    fill(rig, 0, 2, timestamp_ms=50_000)
    fill(rig, 1, 2, timestamp_ms=1)
    rig.turn(6)
    assert met(rig) == run(1, V1, 0, 1)
    assert rig.parts.batcher.count_waiting(rig.pool.has_instances) == 2
    rig.pool.missing = set()
    rig.turn(6)
    assert met(rig)[2:] == run(0, V2, 0, 1)


def test_a_worker_with_nothing_but_waiting_records_does_not_spin() -> None:
    rig = started(Rig(timeline=at(50_000)))
    rig.pool.missing = {"v2"}
    fill(rig, 0, 2, timestamp_ms=50_000)
    rig.turn(3)
    assert rig.worker._wait_seconds(rig.now) > 0


def test_a_rollback_frees_records_that_wait_for_a_version_that_cannot_be_loaded() -> None:
    rig = started(Rig(timeline=at(50_000)))
    rig.pool.missing = {"v2"}
    fill(rig, 0, 4, timestamp_ms=50_000)
    rig.turn(4)
    rig.source.publish(at(50_000).with_rollback(None, 2, 95_000))
    rig.turn(6)
    assert met(rig) == run(0, ServedVersion("m", "v1", 3), *range(4))
    assert [(cut.epoch, cut.offset) for cut in rig.settlement.cuts] == [(1, 0), (3, 0)]


def test_a_partition_that_is_further_than_the_known_timeline_waits_for_it() -> None:
    rig = Rig(timeline=ONLY_V1)
    rig.member.committed, rig.member.metadata = {P0: 0}, {P0: "headrace:1:e=2"}
    fill(rig, 0, 2)
    started(rig).turn(6)
    assert met(rig) == []
    assert rig.parts.batcher.versions() == {ServedVersion("m", "", 2)}
    rig.source.publish(at(50_000))
    rig.turn(6)
    assert met(rig) == run(0, V2, 0, 1)


def test_nothing_is_taken_in_before_the_pointer_was_looked_at_lately() -> None:
    rig = started(Rig(timeline=ONLY_V1))
    looked_at = rig.now
    rig.source.look = lambda: Attempt(int(looked_at * 1000), looked_at)
    rig.now += FRESH_SECONDS
    fill(rig, 0, 4)
    rig.turn(4)
    assert met(rig) == []
    assert rig.member.paused == {P0}
    assert rig.parts.metrics.versions.holds._value.get() == 1
    rig.source.look = lambda: Attempt(int(rig.now * 1000), rig.now)
    rig.source.publish(NOW_V2)
    rig.turn(6)
    assert met(rig) == run(0, V2, *range(4))
    assert rig.member.paused == set()


def test_a_newer_decision_leaves_each_queued_record_to_what_it_met_and_never_below_a_batch() -> None:
    """A record in a batch, then queued ones: one before the instant by a clock that stepped back, one behind it."""
    rig = started(Rig(timeline=at(50_000), max_batch_size=1))
    rig.pool.holds, rig.pool.slots = True, 1
    fill(rig, 0, 1, timestamp_ms=50_000)
    rig.turn(2)
    fill(rig, 0, 1, timestamp_ms=49_000)
    fill(rig, 1, 1, timestamp_ms=49_000)
    fill(rig, 1, 1, timestamp_ms=50_000)
    rig.member.assign(P1)
    rig.turn(2)
    rig.source.publish(at(50_000).with_activation("v1", 2, 60_000, effective_from_ms=900_000))
    rig.turn()
    rig.pool.holds = False
    rig.turn(12)
    assert sorted(met(rig)) == [*run(0, V2, 0, 1), *run(1, V1, 0), *run(1, V2, 1)]


def test_what_a_look_finds_between_is_not_taken_for_known() -> None:
    """The thread may look between two lines of the loop: then its attempt must not count before its timeline does."""
    rig = started(Rig(timeline=ONLY_V1))
    old = Attempt(0, rig.now - 60)
    rig.source.look = lambda: old
    take = rig.source.take_timeline

    def take_then_look() -> Timeline | None:
        nothing = take()
        rig.source.publish(NOW_V2)
        rig.source.look = lambda: Attempt(int(rig.now * 1000), rig.now)
        rig.source.take_timeline = take  # type: ignore[method-assign]
        return nothing

    rig.source.take_timeline = take_then_look  # type: ignore[method-assign]
    fill(rig, 0, 2)
    rig.turn(1)
    assert rig.parts.versions.holds
    rig.turn(8)
    assert met(rig) == run(0, V2, 0, 1)


@pytest.mark.parametrize(("seconds_since_the_look", "takes_in"), [(1.4, True), (1.6, False)])
def test_a_look_of_a_second_and_a_half_ago_is_not_fresh(seconds_since_the_look: float, takes_in: bool) -> None:
    rig = started(Rig(timeline=ONLY_V1))
    looked_at = rig.now
    rig.source.look = lambda: Attempt(int(looked_at * 1000), looked_at)
    rig.now += seconds_since_the_look
    fill(rig, 0, 1)
    rig.turn(1, 0.0)
    assert rig.parts.versions.holds is not takes_in


def test_a_member_takes_nothing_in_unaware_of_a_switch_whose_lead_is_the_least() -> None:
    """Made known right after the look, and with half a second to spare for clocks that differ."""
    rig = started(Rig(timeline=ONLY_V1))
    looked_at = rig.now
    rig.source.look = lambda: Attempt(int(looked_at * 1000), looked_at)
    rig.now = looked_at + MIN_LEAD_MS / 1000 - 0.49
    fill(rig, 0, 2, timestamp_ms=int(looked_at * 1000) + MIN_LEAD_MS)
    rig.turn(4)
    assert met(rig) == []
    rig.source.publish(at(int(looked_at * 1000) + MIN_LEAD_MS))
    rig.source.look = lambda: Attempt(int(rig.now * 1000), rig.now)
    rig.turn(30)
    assert met(rig) == run(0, V2, 0, 1)


def test_what_was_held_of_a_partition_that_moved_meanwhile_is_read_again() -> None:
    rig = started(Rig(timeline=ONLY_V1), P0, P1)
    rig.source.look = lambda: Attempt(0, float("-inf"))
    fill(rig, 0, 2)
    fill(rig, 1, 2)
    rig.turn(2)
    rig.member.revoke(P0)
    rig.member.assign(P0)
    rig.source.look = lambda: Attempt(int(rig.now * 1000), rig.now)
    rig.turn(8)
    assert sorted(met(rig)) == [*run(0, V1, 0, 1), *run(1, V1, 0, 1)]
    assert rig.parts.ledger.fenced == 0


def test_a_record_beyond_the_instant_waits_for_a_look_that_would_have_shown_a_call_off() -> None:
    rig = started(Rig(timeline=at(102_000)))
    rig.source.look = lambda: Attempt(101_700, rig.now)
    fill(rig, 0, 1, timestamp_ms=101_900)
    fill(rig, 0, 1, timestamp_ms=102_000)
    rig.turn(4)
    assert met(rig) == []
    rig.source.publish(at(102_000).with_called_off(2, 101_750))
    rig.source.look = lambda: Attempt(101_850, rig.now)
    rig.turn(6)
    assert met(rig) == [*run(0, V1, 0), *run(0, ServedVersion("m", "v1", 3), 1)]


def test_an_outcome_without_a_model_names_the_version_of_its_record() -> None:
    rig = started(Rig(timeline=at(50_000)))
    rig.pool.holds = True
    fill(rig, 0, 9, timestamp_ms=49_000, deadline_ms=101_000)
    fill(rig, 0, 1, timestamp_ms=50_000, deadline_ms=101_000)
    fill(rig, 0, 1, timestamp_ms=50_000, payload=b"")
    rig.turn(3)
    rig.now = 102.0
    rig.turn(3)
    assert met(rig) == [*run(0, V1, *range(9)), *run(0, V2, 9, 10)]


def test_a_split_is_sticky_by_key_and_deterministic_without_one() -> None:
    split = Timeline().with_activation({"v1": 1, "v2": 1}, 0, 0)
    answers = []
    for _ in range(2):
        rig = started(Rig(timeline=split))
        for number in range(40):
            fill(rig, 0, 1, key=None if number % 2 else b"key-%d" % (number % 8))
        rig.turn(20)
        answers.append(met(rig))
    assert answers[0] == answers[1]
    by_key = {number % 8: {answers[0][n][2] for n in range(number, 40, 8)} for number in range(0, 8, 2)}
    assert all(len(versions) == 1 for versions in by_key.values())
    assert {version for _, _, version, _ in answers[0]} == {"v1", "v2"}


def test_the_report_names_the_versions_that_records_in_hand_are_pinned_to() -> None:
    rig = started(Rig(timeline=at(50_000)))
    told: list[tuple[int, set[ServedVersion]]] = []
    rig.parts.report = lambda in_flight, versions: told.append((in_flight, set(versions)))
    rig.pool.holds = True
    fill(rig, 0, 4, timestamp_ms=1)
    rig.turn(3)
    fill(rig, 0, 4, timestamp_ms=50_000)
    rig.turn(60)
    assert told[-1] == (2, {V1, V2})
    rig.pool.holds = False
    rig.turn(60)
    assert told[-1] == (0, set())


def stalls(rig: Rig) -> tuple[int, float]:
    """How many switches were met, and for how many seconds in all they kept batches from starting."""
    (family,) = rig.parts.metrics.versions.stall.collect()
    found = {sample.name.removeprefix(f"{family.name}_"): sample.value for sample in family.samples}
    return int(found["count"]), found["sum"]


def test_a_switch_to_a_loaded_version_stalls_nothing_and_is_met_by_the_first_batch_under_it() -> None:
    rig = started(Rig(timeline=ONLY_V1))
    fill(rig, 0, 4)
    rig.turn(3)
    assert stalls(rig) == (1, 0.0)
    rig.source.publish(NOW_V2)
    rig.turn(3)
    assert stalls(rig)[0] == 1
    fill(rig, 0, 4)
    rig.turn(3)
    assert stalls(rig) == (2, 0.0)


def test_the_time_in_which_all_work_waits_for_a_version_that_is_not_loaded_is_a_stall() -> None:
    rig = started(Rig(timeline=ONLY_V1))
    fill(rig, 0, 4)
    rig.turn(3)
    rig.pool.missing.add("v2")
    rig.source.publish(NOW_V2)
    fill(rig, 0, 4)
    rig.turn(10, seconds=1.0)
    assert stalls(rig)[0] == 1
    rig.pool.missing.discard("v2")
    rig.turn(3)
    count, seconds = stalls(rig)
    assert count == 2
    assert seconds == pytest.approx(10.0, abs=1.1)
