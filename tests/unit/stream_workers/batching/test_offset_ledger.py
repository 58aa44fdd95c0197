"""The book of offsets: nothing beyond the frontier, nothing backwards, nothing late."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.records import ErrorDetail, Stage
from schemas.version_cuts import VersionCut
from stream_workers.batching.offset_ledger import Frontier, OffsetLedger
from stream_workers.batching.work import Expired, Rejected, ServedVersion, WorkItem
from tests.unit.stream_workers.builders import TIMINGS, VERSION, answered, item

P0 = ("requests", 0)
P2 = ("requests", 2)
P1 = ("requests", 1)


def opened(*partitions: tuple[str, int]) -> OffsetLedger:
    ledger = OffsetLedger()
    for partition in partitions or (P0,):
        ledger.open(partition, 1)
    return ledger


def test_the_frontier_waits_for_the_oldest_record() -> None:
    ledger = opened()
    items = ledger.admit([item(n) for n in range(21)])
    assert not ledger.settle([answered(one) for one in items[1:]])
    settled = ledger.settle([answered(items[0])])
    assert [one.request.offset for one in settled.items] == list(range(21))
    assert settled.frontiers == {P0: Frontier(1, 21)}


def test_each_partition_of_a_mixed_batch_gets_its_own_frontier() -> None:
    ledger = opened(P0, P1)
    items = ledger.admit([item(5, 0), item(6, 0), item(90, 1)])
    settled = ledger.settle([answered(one) for one in items])
    assert settled.frontiers == {P0: Frontier(1, 7), P1: Frontier(1, 91)}


def test_holes_of_compaction_do_not_hold_the_frontier() -> None:
    ledger = opened()
    items = ledger.admit([item(3), item(17)])
    assert ledger.settle([answered(one) for one in items]).frontiers == {P0: Frontier(1, 18)}


def test_the_end_of_the_partition_counts_only_when_everything_before_it_is_settled() -> None:
    ledger = opened()
    (only,) = ledger.admit([item(3)])
    ledger.note_end(P0, 5)
    assert not ledger.settle_ends()
    assert ledger.settle([answered(only)]).frontiers == {P0: Frontier(1, 5)}
    ledger.note_end(P0, 6)
    assert ledger.settle_ends().frontiers == {P0: Frontier(1, 6)}
    assert not ledger.settle_ends()


def test_a_late_outcome_of_an_earlier_assignment_is_fenced() -> None:
    ledger = opened()
    (old,) = ledger.admit([item(0, assignment=1)])
    ledger.close(P0)
    ledger.open(P0, 2)
    ledger.admit([item(0, assignment=2), item(1, assignment=2)])
    assert not ledger.settle([answered(old)])
    assert ledger.fenced == 1
    assert ledger.count_pending(P0) == 2


def test_a_record_seen_before_or_of_a_partition_that_is_gone_is_left_out() -> None:
    ledger = opened()
    ledger.admit([item(4)])
    assert ledger.admit([item(4), item(3), item(0, 1)]) == []
    assert [one.request.offset for one in ledger.admit([item(5)])] == [5]


def test_pending_bytes_follow_what_is_held() -> None:
    ledger = opened()
    items = ledger.admit([item(0, size=10), item(1, size=5)])
    assert ledger.pending_bytes() == {P0: 15}
    ledger.settle([answered(items[0])])
    assert ledger.pending_bytes() == {P0: 5}


@given(data=st.data(), count=st.integers(1, 40), partitions=st.integers(1, 3))
def test_any_order_of_outcomes_leaves_in_offset_order_and_commits_the_contiguous_prefix(
    data: st.DataObject, count: int, partitions: int
) -> None:
    ledger = opened(*(("requests", p) for p in range(partitions)))
    gaps = data.draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
    offset = dict.fromkeys(range(partitions), 0)
    items = []
    for gap in gaps:
        partition = data.draw(st.integers(0, partitions - 1))
        offset[partition] += gap
        items.append(item(offset[partition], partition))
    ledger.admit(items)
    order = data.draw(st.permutations(items))
    left: dict[int, list[int]] = {p: [] for p in range(partitions)}
    frontier = dict.fromkeys(range(partitions), -1)
    start = 0
    while start < len(order):
        step = data.draw(st.integers(1, 5))
        settled = ledger.settle([answered(one) for one in order[start : start + step]])
        start += step
        for one in settled.items:
            left[one.request.partition].append(one.request.offset)
        for (_, partition), value in settled.frontiers.items():
            assert value.offset > frontier[partition]
            frontier[partition] = value.offset
            undone = [o.request.offset for o in items if o.request.partition == partition and o.outcome is None]
            assert not undone or value.offset <= min(undone)
    for partition in range(partitions):
        assert left[partition] == [o.request.offset for o in items if o.request.partition == partition]


def test_the_frontier_names_the_epoch_that_was_reached_and_keeps_it_at_the_end() -> None:
    ledger = OffsetLedger()
    ledger.open(P0, 1, start=3, epoch=4)
    ledger.note_end(P0, 5)
    assert ledger.settle_ends().frontiers == {P0: Frontier(1, 5, 4)}
    (one,) = ledger.admit([item(7)])
    one.version = ServedVersion("m", "v", 6)
    assert ledger.settle([answered(one)]).frontiers == {P0: Frontier(1, 8, 6)}
    (older,) = ledger.admit([item(8)])
    assert ledger.settle([answered(older)]).frontiers == {P0: Frontier(1, 9, 6)}


def refused(one: WorkItem, stage: Stage) -> WorkItem:
    one.outcome = Rejected(ErrorDetail(stage=stage, code="c", error_class="E", message=""), VERSION)
    return one


def test_a_cut_lies_behind_what_met_a_model_and_before_what_did_not() -> None:
    ledger = OffsetLedger()
    ledger.open(P0, 1, start=2)
    assert ledger.find_cut(P0) == 2
    items = ledger.admit([item(n) for n in range(2, 12)])
    assert ledger.find_cut(P0) == 2
    assert ledger.find_cut(P0, beyond=4) == 4
    ledger.settle([answered(items[0])])
    assert ledger.find_cut(P0) == 3
    refused(items[9], Stage.VALIDATE)
    items[8].outcome = Expired(VERSION, TIMINGS)
    assert ledger.find_cut(P0) == 3
    refused(items[5], Stage.PREPROCESS)
    assert ledger.find_cut(P0) == 8
    assert [one.request.offset for one in ledger.pending_from(P0, 8)] == [8, 9, 10, 11]


def test_a_cut_leaves_beside_an_offset_at_once_or_with_the_first_outcome() -> None:
    ledger, cut = OffsetLedger(), VersionCut("m", "requests", 0, 2, 0, 1)
    ledger.open(P0, 1)
    ledger.open(P1, 1, start=9, epoch=1)
    ledger.add_cut(P0, cut)
    other = VersionCut("m", "requests", 1, 2, 9, 1)
    ledger.add_cut(P1, other)
    ledger.open(P2, 1, start=0)
    ledger.add_cut(P2, VersionCut("m", "requests", 2, 2, 0, 1))
    settled = ledger.settle_cuts()
    assert settled.frontiers.pop(P2) == Frontier(1, 0)
    assert settled.cuts.pop().partition == 2
    assert (settled.cuts, settled.frontiers) == ([other], {P1: Frontier(1, 9, 1)})
    assert not ledger.settle_cuts()
    (one,) = ledger.admit([item(0)])
    settled = ledger.settle([answered(one)])
    assert (settled.cuts, settled.frontiers) == ([cut], {P0: Frontier(1, 1)})
