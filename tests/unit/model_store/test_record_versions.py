from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from model_store.record_versions import PartitionVersions, choose_entry
from model_store.timeline import SwitchMode, Timeline, TimelineEntry
from tests.unit.model_store.timelines import timelines

TIMES = st.lists(st.integers(0, 600), min_size=1, max_size=30)


@st.composite
def partitions(draw: st.DrawFn) -> tuple[Timeline, dict[int, int], list[int]]:
    """A timeline, cuts for some of its `now` entries, and the append times of a partition's records."""
    timeline = draw(timelines(max_entries=8, latest_ms=500))
    epochs = [entry.epoch for entry in timeline.entries if entry.mode is SwitchMode.NOW]
    cuts = {epoch: draw(st.integers(0, 30)) for epoch in epochs if draw(st.booleans())}
    return timeline, cuts, draw(TIMES)


def applies(entry: TimelineEntry, cuts: dict[int, int], offset: int, timestamp_ms: int) -> bool:
    if entry.mode is SwitchMode.EXACT:
        return timestamp_ms >= entry.effective_from_ms
    return offset >= cuts.get(entry.epoch, 2**60)


def met(timeline: Timeline, cuts: dict[int, int], times: list[int]) -> list[int]:
    versions = PartitionVersions(dict(cuts))
    entries = [versions.meet(timeline, offset, time) for offset, time in enumerate(times)]
    return [entry.epoch for entry in entries if entry is not None]


@given(partitions())
def test_a_partition_never_turns_back(partition: Any) -> None:
    epochs = met(*partition)

    assert len(epochs) == len(partition[2])
    assert epochs == sorted(epochs)


@given(partitions())
def test_a_record_meets_the_highest_epoch_that_applied_to_it_or_before_it(partition: Any) -> None:
    timeline, cuts, times = partition
    highest, expected = timeline.entries[0].epoch, []
    for offset, time in enumerate(times):
        fitting = [entry.epoch for entry in timeline.entries if applies(entry, cuts, offset, time)]
        highest = max([highest, *fitting])
        expected.append(highest)

    assert met(*partition) == expected


@given(partitions(), st.integers(0, 30))
def test_an_owner_that_begins_anywhere_with_the_floor_goes_on_as_the_last_one(partition: Any, at: int) -> None:
    timeline, cuts, times = partition
    first, at = PartitionVersions(dict(cuts)), min(at, len(times))
    before = [first.meet(timeline, offset, time) for offset, time in enumerate(times[:at])]
    second = PartitionVersions(dict(cuts), first.floor_epoch)
    after = [second.meet(timeline, at + index, time) for index, time in enumerate(times[at:])]

    assert [entry.epoch for entry in (*before, *after) if entry is not None] == met(*partition)


@given(timelines(max_entries=6, latest_ms=500), TIMES)
def test_a_switch_that_was_called_off_meets_no_record(timeline: Timeline, times: list[int]) -> None:
    instant = timeline.entries[-1].effective_from_ms + 300
    armed = timeline.with_activation("next", timeline.epoch, 0, effective_from_ms=instant)
    off = armed.with_called_off(armed.epoch, instant - 250)

    assert armed.epoch not in met(off, {}, times)


def test_an_exact_switch_cuts_at_its_instant_in_every_partition() -> None:
    timeline = Timeline().with_activation("a", 0, 0).with_activation("b", 1, 0, effective_from_ms=200)

    assert met(timeline, {}, [0, 199, 200, 300]) == [1, 1, 2, 2]


def test_a_broker_clock_that_steps_back_turns_nothing_back() -> None:
    timeline = Timeline().with_activation("a", 0, 0).with_activation("b", 1, 0, effective_from_ms=200)

    assert met(timeline, {}, [199, 200, 100, 300]) == [1, 2, 2, 2]


def test_a_switch_from_now_on_cuts_at_the_recorded_offset_and_not_before_it_is_recorded() -> None:
    timeline = Timeline().with_activation("a", 0, 0).with_activation("b", 1, 0)

    assert met(timeline, {2: 2}, [5, 5, 5, 5]) == [1, 1, 2, 2]
    assert met(timeline, {}, [5, 5]) == [1, 1]


def test_a_record_waits_while_the_floor_is_above_the_known_timeline() -> None:
    timeline = Timeline().with_activation("a", 0, 0)

    assert choose_entry(timeline, {1: 0}, 2, 5, 5) is None
    assert choose_entry(Timeline(), {}, 0, 5, 5) is None


def test_a_floor_between_two_epochs_is_met_by_the_next_one() -> None:
    timeline = Timeline().with_activation("a", 0, 0).with_activation("b", 1, 0, floor_epoch=6)

    entry = choose_entry(timeline, {1: 0}, 5, 5, 5)

    assert entry is not None
    assert entry.epoch == 7


def test_the_owner_has_one_cut_to_record_at_most() -> None:
    timeline = Timeline().with_activation("a", 0, 0).with_activation("b", 1, 0)
    timeline = timeline.with_activation("c", 2, 0, effective_from_ms=900)
    versions = PartitionVersions()

    assert versions.find_uncut_epoch(Timeline()) is None
    assert versions.find_uncut_epoch(timeline) == 2
    versions.cuts[2] = 7
    assert versions.find_uncut_epoch(timeline) is None
    assert PartitionVersions({}, floor_epoch=3).find_uncut_epoch(timeline) is None
