"""The result cache from the worker's side: who is answered, who waits, who is handed out, and that nobody is lost."""

import pytest

from schemas.records import Timings
from stream_workers.batching.work import Answer, Expired, Rejected, ServedVersion
from stream_workers.caching.hit_watch import SAMPLE_OF, WINDOW
from stream_workers.caching.recall import NoAnswerCache
from tests.unit.stream_workers.cache_rig import RAN, TROUBLE, CacheRig


def test_a_repeat_is_answered_with_the_same_bytes_at_once() -> None:
    rig = CacheRig()
    first, again = rig.record(), rig.record(key=b"other")
    assert rig.cache.look_up([first], 10.0).to_queue == [first]
    rig.run(first, output=b'{"a": 1}')
    found = rig.cache.look_up([again], 10.5)
    assert (found.answered, found.to_queue) == ([again], [])
    assert again.outcome == Answer(b'{"a": 1}', ServedVersion("m", "v1", 1), Timings(500.0, 0.0, 0))
    assert (rig.counted("local"), rig.counted("miss")) == (1, 1)


@pytest.mark.parametrize("varied", [{"payload": b"[]"}, {"content_type": "text/plain"}])
def test_other_bytes_or_another_content_type_are_no_repeat(varied: dict[str, object]) -> None:
    rig = CacheRig()
    first, other = rig.record(), rig.record(**varied)  # type: ignore[arg-type]
    rig.cache.look_up([first], 10.0)
    rig.run(first)
    assert rig.cache.look_up([other], 10.0).to_queue == [other]


def test_repeats_in_flight_wait_for_the_first_and_are_answered_with_it() -> None:
    rig = CacheRig()
    first, second, third = rig.record(), rig.record(), rig.record(partition=1)
    assert rig.cache.look_up([first, second], 10.0).to_queue == [first]
    assert rig.cache.look_up([third], 10.1).to_queue == []
    assert rig.run(first, output=b"7", now=12.0) == [second, third]
    assert third.outcome == Answer(b"7", ServedVersion("m", "v1", 1), Timings(2000.0, 0.0, 0))
    assert rig.counted("waited") == 2


def test_a_hit_after_a_rollback_names_the_epoch_that_serves_now() -> None:
    rig = CacheRig()
    first = rig.record()
    rig.cache.look_up([first], 10.0)
    rig.run(first)
    rig.maker.switch(2)
    between = rig.record()
    assert rig.cache.look_up([between], 10.0).to_queue == [between]
    rig.maker.switch(1)
    again = rig.record()
    assert rig.cache.look_up([again], 10.0).answered == [again]
    assert again.outcome.version == ServedVersion("m", "v1", 3)  # type: ignore[union-attr]


def test_an_answer_of_the_version_before_a_switch_is_given_to_nobody_else() -> None:
    rig = CacheRig()
    first, waiting = rig.record(), rig.record()
    rig.cache.look_up([first, waiting], 10.0)
    rig.maker.switch(2, waiting)
    newcomer = rig.record()
    assert rig.cache.look_up([newcomer], 10.0).to_queue == [newcomer]
    assert rig.run(first, output=b"old", now=11.0) == []
    # It waits again, now for the one that meets the new version.
    assert rig.cache.sweep(11.0).to_queue == []
    assert rig.run(newcomer, output=b"new") == [waiting]
    assert waiting.outcome.output == b"new"  # type: ignore[union-attr]


def test_a_record_that_was_queued_at_a_switch_answers_those_behind_it_by_the_new_version() -> None:
    rig = CacheRig()
    first, waiting = rig.record(), rig.record()
    rig.cache.look_up([first, waiting], 10.0)
    rig.maker.switch(2, first, waiting)
    later = rig.record()
    assert rig.run(first, output=b"new") == [waiting]
    assert rig.cache.look_up([later], 10.0).answered == [later]


def test_records_of_two_versions_never_wait_for_each_other() -> None:
    rig = CacheRig()
    old = rig.record()
    rig.maker.switch(2)
    new = rig.record()
    assert rig.cache.look_up([old, new], 10.0).to_queue == [old, new]
    assert rig.run(old, output=b"old") == []
    assert rig.run(new, output=b"new") == []


def test_another_identity_of_the_same_version_is_another_answer() -> None:
    rig = CacheRig()
    first, again = rig.record(), rig.record()
    rig.cache.look_up([first], 10.0)
    rig.run(first)
    rig.maker.identities["v1"] = b"x" * 32
    assert rig.cache.look_up([again], 10.0).to_queue == [again]


def test_when_the_first_expires_the_next_in_line_runs_and_the_others_wait_for_it() -> None:
    rig = CacheRig()
    first, second, third = (rig.record() for _ in range(3))
    rig.cache.look_up([first, second, third], 10.0)
    first.outcome = Expired(ServedVersion("m", "v1", 1), RAN)
    assert rig.cache.note_answers([first], 11.0) == []
    assert rig.cache.holds
    assert rig.cache.sweep(11.0).to_queue == [second]
    assert not rig.cache.holds
    assert rig.run(second) == [third]


def test_when_the_first_is_refused_all_others_meet_the_model_at_once() -> None:
    rig = CacheRig()
    first, second, third = (rig.record() for _ in range(3))
    rig.cache.look_up([first, second, third], 10.0)
    first.outcome = Rejected(TROUBLE, ServedVersion("m", "v1", 1))
    assert rig.cache.note_answers([first], 11.0) == []
    assert rig.cache.sweep(11.0).to_queue == [second, third]


def test_followers_of_a_refused_leader_go_with_their_partition_too() -> None:
    rig = CacheRig()
    first, gone, left = rig.record(partition=0), rig.record(partition=1), rig.record(partition=2)
    rig.cache.look_up([first, gone, left], 10.0)
    first.outcome = Rejected(TROUBLE, ServedVersion("m", "v1", 1))
    rig.cache.note_answers([first], 11.0)
    rig.cache.drop(("requests", 1))
    assert rig.cache.sweep(11.0).to_queue == [left]


def test_a_follower_whose_deadline_has_passed_keeps_its_outcome() -> None:
    rig = CacheRig()
    first, second = rig.record(), rig.record()
    rig.cache.look_up([first, second], 10.0)
    expired = second.outcome = Expired(ServedVersion("m", "v1", 1), RAN)
    rig.cache.note_answers([second], 11.0)
    assert rig.run(first) == []
    assert second.outcome is expired


def test_a_revoked_leader_is_followed_by_the_next_of_another_partition() -> None:
    rig = CacheRig()
    gone, gone_too, left, behind = (rig.record(partition=number) for number in (0, 0, 1, 1))
    rig.cache.look_up([gone, gone_too, left, behind], 10.0)
    rig.cache.drop(("requests", 0))
    assert rig.cache.sweep(11.0).to_queue == [left]
    assert rig.run(gone) == [], "its late answer is for nobody any more"
    assert rig.run(left) == [behind]


def test_who_is_more_urgent_does_not_wait_for_who_is_less() -> None:
    rig = CacheRig()
    slow, urgent = rig.record(priority=1), rig.record(priority=0)
    assert rig.cache.look_up([slow, urgent], 10.0).to_queue == [slow, urgent]


def test_an_answer_above_the_bound_is_shared_and_not_kept() -> None:
    rig = CacheRig(max_output_bytes=64)
    first, second, later = (rig.record() for _ in range(3))
    rig.cache.look_up([first, second], 10.0)
    assert rig.run(first, output=b'"' + b"x" * 63 + b'"') == [second]
    assert rig.cache.look_up([later], 10.0).to_queue == [later]


def test_nothing_is_kept_of_a_model_that_does_not_declare_it() -> None:
    rig = CacheRig()
    rig.maker.identities.clear()
    first, again = rig.record(), rig.record()
    assert rig.cache.look_up([first], 10.0).to_queue == [first]
    rig.run(first)
    assert rig.cache.look_up([again], 10.0).to_queue == [again]
    assert rig.counted("undeclared") == 2


def test_unique_records_are_bypassed_after_a_while() -> None:
    rig = CacheRig()
    for number in range(2 * WINDOW * SAMPLE_OF):
        one = rig.record(b"%d" % number * 30)
        assert rig.cache.look_up([one], 10.0).to_queue == [one]
        rig.run(one)
    assert rig.counted("bypassed") > 0.7 * WINDOW * SAMPLE_OF


def test_the_cache_that_is_off_lets_everything_through() -> None:
    cache, one = NoAnswerCache(), CacheRig().record()
    assert cache.look_up([one], 0.0).to_queue == [one]
    assert cache.note_answers([one], 0.0) == []
    assert cache.sweep(0.0).to_queue == []
    assert not cache.holds
