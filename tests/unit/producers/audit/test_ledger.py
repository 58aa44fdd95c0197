from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.audit.findings import Kind
from producers.audit.ledger import Bounds, Ledger, SentRecord
from producers.outcomes import Outcome
from schemas.records import Position, Status
from tests.unit.producers.audit.audit_builders import REQUESTS, dead_letter, result, sent


def audit(
    requests: Sequence[SentRecord],
    outcomes: Sequence[Outcome],
    *,
    bounds: Bounds | None = None,
    committed: dict[tuple[str, int], int] | None = None,
) -> Ledger:
    ledger = Ledger(bounds)
    for request in requests:
        ledger.enter_request(request)
    for outcome in outcomes:
        ledger.enter_outcome(outcome)
    ledger.close(committed)
    return ledger


def found(ledger: Ledger) -> dict[Kind, int]:
    return {kind: finding.count for kind, finding in ledger.findings.by_kind().items()}


def test_requests_that_are_each_answered_once_and_in_order_leave_nothing_to_find() -> None:
    ledger = audit([sent(0), sent(1), sent(2)], [result(0, 0), result(1, 1, status=Status.EXPIRED), dead_letter(2, 0)])
    assert found(ledger) == {}
    assert (ledger.total.sent, ledger.total.ok, ledger.total.expired, ledger.total.dead_letters) == (3, 1, 1, 1)


def test_a_request_without_an_outcome_is_missing_and_named() -> None:
    ledger = audit([sent(0), sent(1)], [result(0, 0)])
    assert found(ledger) == {Kind.MISSING: 1}
    assert ledger.findings.by_kind()[Kind.MISSING].examples == ["requests-0-1"]


def test_a_missing_request_below_the_committed_offset_is_lost_for_good() -> None:
    ledger = audit([sent(0), sent(1)], [result(0, 0)], committed={(REQUESTS, 0): 2})
    assert found(ledger) == {Kind.MISSING: 1, Kind.GROUP_AHEAD: 1}


def test_a_tombstone_needs_no_outcome() -> None:
    assert found(audit([SentRecord(Position(REQUESTS, 0, 0), "a", None, tombstone=True)], [])) == {}


@pytest.mark.parametrize("second", [result(0, 5), dead_letter(0, 0)])
def test_a_second_outcome_of_one_position_is_doubled_in_whatever_topic(second: Outcome) -> None:
    assert found(audit([sent(0)], [result(0, 0), second])) == {Kind.DOUBLED: 1}


def test_two_requests_of_one_id_may_each_have_an_outcome() -> None:
    assert (
        found(
            audit(
                [sent(0, request_id="a"), sent(1, request_id="a")],
                [result(0, 0, request_id="a"), result(1, 1, request_id="a")],
            )
        )
        == {}
    )


def test_an_outcome_under_an_id_that_was_answered_already_is_unknown_and_doubled() -> None:
    ledger = audit(
        [sent(0, request_id="a"), sent(1, request_id="b")], [result(0, 0, request_id="a"), result(1, 1, request_id="a")]
    )
    assert found(ledger) == {Kind.DOUBLED: 1, Kind.UNKNOWN: 1}


def test_an_unreadable_request_may_be_answered_under_any_id() -> None:
    assert found(audit([sent(0, request_id=None)], [result(0, 0, request_id="whatever")])) == {}


def test_an_outcome_of_an_earlier_request_behind_a_later_one_is_out_of_order() -> None:
    ledger = audit([sent(0), sent(1)], [result(1, 0), result(0, 1)])
    assert found(ledger) == {Kind.OUT_OF_ORDER: 1}
    assert ledger.by_key["k"].out_of_order == 1


def test_order_is_kept_within_one_partition_of_outcomes_and_of_requests() -> None:
    requests = [sent(0), sent(1), sent(0, partition=1)]
    outcomes = [result(1, 0), result(0, 0, to=1), result(0, 1, partition=1)]
    assert found(audit(requests, outcomes)) == {}


def test_an_outcome_of_something_never_sent_is_unknown() -> None:
    assert found(audit([sent(0)], [result(0, 0), result(7, 1)])) == {Kind.UNKNOWN: 1}


def test_with_known_ends_an_outcome_of_another_publishers_request_is_only_counted() -> None:
    bounds = Bounds(ends={(REQUESTS, 0): 5})
    ledger = audit([sent(0)], [result(0, 0), result(4, 1), result(5, 2)], bounds=bounds)
    assert found(ledger) == {Kind.UNKNOWN: 1}
    assert ledger.unlisted == 1


def test_what_lies_before_the_audit_is_left_alone() -> None:
    bounds = Bounds(since={(REQUESTS, 0): 2})
    ledger = audit([sent(0), sent(2)], [result(1, 0), result(2, 1)], bounds=bounds)
    assert found(ledger) == {}
    assert ledger.total.sent == 1


def test_an_epoch_that_goes_back_along_the_source_offsets_is_a_wrong_version() -> None:
    ledger = audit([sent(0), sent(1), sent(2)], [result(0, 0), result(1, 1, epoch=2), result(2, 2)])
    assert found(ledger) == {Kind.WRONG_VERSION: 1}


def test_epochs_are_compared_across_the_topics_and_partitions_of_outcomes() -> None:
    ledger = audit([sent(0), sent(1)], [result(0, 0, epoch=2), dead_letter(1, 0, epoch=1)])
    assert found(ledger) == {Kind.WRONG_VERSION: 1}


def test_a_dead_letter_that_met_no_model_has_no_epoch() -> None:
    assert found(audit([sent(0), sent(1)], [result(0, 0), dead_letter(1, 0, version="", epoch=0)])) == {}


def test_a_request_entered_twice_counts_once() -> None:
    assert audit([sent(0), sent(0)], [result(0, 0)]).total.sent == 1


OFFSETS = st.lists(st.integers(0, 60), unique=True, min_size=1).map(sorted)


def answers_of(offsets: Sequence[int]) -> list[Outcome]:
    return [result(offset, at) for at, offset in enumerate(offsets)]


@given(OFFSETS)
def test_any_complete_run_is_clean_whatever_holes_its_offsets_have(offsets: list[int]) -> None:
    assert found(audit([sent(offset) for offset in offsets], answers_of(offsets))) == {}


@given(OFFSETS, st.data())
def test_losing_any_outcomes_finds_exactly_those_missing(offsets: list[int], data: st.DataObject) -> None:
    lost = data.draw(st.sets(st.sampled_from(offsets)))
    kept = [offset for offset in offsets if offset not in lost]
    ledger = audit([sent(offset) for offset in offsets], answers_of(kept))
    assert found(ledger) == ({Kind.MISSING: len(lost)} if lost else {})
    assert ledger.total.missing == len(lost) == ledger.total.sent - ledger.total.ok


@given(OFFSETS, st.data())
def test_repeating_any_outcomes_later_finds_exactly_those_doubled(offsets: list[int], data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(offsets), min_size=1))
    ledger = audit([sent(offset) for offset in offsets], answers_of([*offsets, *again]))
    assert found(ledger) == {Kind.DOUBLED: len(again)}
    assert ledger.total.ok == len(offsets)


@given(st.permutations(range(12)))
def test_a_shuffled_run_is_out_of_order_as_often_as_an_outcome_was_overtaken(order: list[int]) -> None:
    overtaken = sum(order[at] < max(order[:at], default=-1) for at in range(len(order)))
    ledger = audit([sent(offset) for offset in range(12)], answers_of(order))
    assert found(ledger) == ({Kind.OUT_OF_ORDER: overtaken} if overtaken else {})


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.sampled_from("abc")), max_size=40))
def test_the_counts_of_all_streams_add_up_to_the_total(entries: list[tuple[int, int, str]]) -> None:
    requests = [sent(offset, partition=partition, key=key) for partition, offset, key in entries]
    outcomes = [result(offset, at, partition=partition) for at, (partition, offset, _) in enumerate(entries[::2])]
    ledger = audit(requests, outcomes)
    for name in ("sent", "ok", "expired", "dead_letters", "missing", "doubled", "out_of_order"):
        assert sum(getattr(counts, name) for counts in ledger.by_key.values()) == getattr(ledger.total, name)


def test_only_the_first_ten_examples_are_kept_and_all_are_counted() -> None:
    finding = audit([sent(offset) for offset in range(25)], []).findings.by_kind()[Kind.MISSING]
    assert finding.count == 25
    assert finding.examples == [f"requests-0-{offset}" for offset in range(10)]
