"""Who is refused, who runs again, and how often."""

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from schemas.records import Stage
from stream_workers.batching.failure_policy import Breaker, after_loss, after_raise
from stream_workers.batching.work import RunMode, WorkItem
from tests.unit.stream_workers.builders import item


def bisect(items: Sequence[WorkItem], bad: set[int]) -> tuple[list[int], list[int], int]:
    """Play the policy against a model that raises when a bad record is on board: refused, answered, extra runs."""
    refused: list[int] = []
    answered: list[int] = []
    runs = 0
    queue: list[Sequence[WorkItem]] = [items]
    while queue:
        group = queue.pop(0)
        runs += 1
        if bad & {one.request.offset for one in group}:
            verdict = after_raise(group, Stage.MODEL, "ValueError", "boom at 0x7f00deadbeef")
            refused += [one.request.offset for one, _ in verdict.rejected]
            queue += [rerun for rerun, _ in verdict.rerun]
        else:
            answered += [one.request.offset for one in group]
    return refused, answered, runs - 1


@given(size=st.integers(1, 128), data=st.data())
def test_one_culprit_is_found_in_few_runs_and_no_neighbour_is_harmed(size: int, data: st.DataObject) -> None:
    culprit = data.draw(st.integers(0, size - 1))
    refused, answered, extra = bisect([item(n) for n in range(size)], {culprit})
    assert refused == [culprit]
    assert sorted(answered) == [n for n in range(size) if n != culprit]
    assert extra <= 2 * math.ceil(math.log2(size)) + 2 if size > 1 else extra <= 2


@given(size=st.integers(1, 64), bad=st.sets(st.integers(0, 63)))
def test_every_record_ends_exactly_once(size: int, bad: set[int]) -> None:
    bad &= set(range(size))
    refused, answered, _ = bisect([item(n) for n in range(size)], bad)
    assert sorted(refused) == sorted(bad)
    assert sorted(refused + answered) == list(range(size))


def test_a_record_that_fails_once_is_tried_again() -> None:
    verdict = after_raise([item()], Stage.MODEL, "E", "m")
    assert [len(group) for group, _ in verdict.rerun] == [1]
    assert verdict.rejected == []


def test_the_refusal_names_stage_class_attempts_and_hides_addresses() -> None:
    one = item()
    after_raise([one], Stage.POSTPROCESS, "E", "m")
    ((refused, error),) = after_raise([one], Stage.POSTPROCESS, "E", "object at 0x7f00deadbeef").rejected
    assert refused is one
    assert (error.stage, error.code, error.error_class, error.attempts) == (Stage.POSTPROCESS, "model_failure", "E", 2)
    assert "7f00" not in error.message


def test_a_lost_batch_that_had_not_begun_runs_again_without_blame() -> None:
    items = [item(0), item(1)]
    verdict = after_loss(items, RunMode.TOGETHER, suspect=False, culprit=None, code="model_crashed")
    assert verdict.rerun == [(items, RunMode.TOGETHER)]
    assert [one.attempts for one in items] == [0, 0]


def test_a_killer_is_refused_at_the_second_death() -> None:
    items = [item(n) for n in range(4)]
    first = after_loss(items, RunMode.TOGETHER, suspect=True, culprit=None, code="model_crashed")
    assert first.rerun == [(items, RunMode.ISOLATED)]
    # Isolated: 0 and 1 were answered, 2 was being worked on.
    second = after_loss(items[2:], RunMode.ISOLATED, suspect=True, culprit=0, code="model_crashed")
    assert [(one.request.offset, error.code) for one, error in second.rejected] == [(2, "model_crashed")]
    assert second.rerun == [([items[3]], RunMode.ISOLATED)]


def test_a_process_that_ends_between_two_records_blames_neither_until_it_keeps_happening() -> None:
    items = [item(0), item(1)]
    after_loss(items, RunMode.TOGETHER, suspect=True, culprit=None, code="model_crashed")
    for _ in range(2):
        verdict = after_loss(items, RunMode.ISOLATED, suspect=True, culprit=None, code="model_crashed")
        assert verdict.rejected == []
        assert verdict.rerun == [(items, RunMode.ISOLATED)]
    verdict = after_loss(items, RunMode.ISOLATED, suspect=True, culprit=None, code="model_crashed")
    assert [one.request.offset for one, _ in verdict.rejected] == [0]


def test_a_loss_after_the_last_answer_blames_nobody() -> None:
    verdict = after_loss([], RunMode.ISOLATED, suspect=True, culprit=None, code="model_crashed")
    assert verdict.rerun == []
    assert verdict.rejected == []


def test_the_breaker_opens_probes_ever_more_slowly_and_closes_on_an_answer() -> None:
    breaker = Breaker(threshold=2, first_wait_seconds=1.0, max_wait_seconds=4.0)
    breaker.note_failure(0.0)
    assert breaker.allows(0.0)
    breaker.note_failure(0.0)
    assert breaker.is_open
    assert [t for t in (0.0, 0.9, 1.0, 1.5, 2.0, 3.9, 4.0) if breaker.allows(t)] == [1.0, 2.0, 4.0]
    breaker.note_answer()
    assert not breaker.is_open
    assert breaker.allows(4.1)
