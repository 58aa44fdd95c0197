"""The result cache with Redis behind it: a reply in time is an answer, anything else costs no more than the wait."""

from tests.unit.stream_workers.cache_rig import CacheRig


def test_an_answer_that_another_member_stored_is_found_and_kept() -> None:
    first, second = CacheRig(remote=True), CacheRig(remote=True)
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
    rig = CacheRig(remote=True)
    assert rig.remote is not None
    one, follower = rig.record(), rig.record()
    rig.cache.look_up([one, follower], 10.0)
    rig.remote.reply()
    assert rig.cache.sweep(10.001).to_queue == [one]
    assert rig.run(one) == [follower]
    assert list(rig.remote.stored.values()) == [b"1"]


def test_a_reply_that_does_not_come_in_time_is_a_miss() -> None:
    rig = CacheRig(remote=True, redis_wait_ms=5)
    assert rig.remote is not None
    one = rig.record()
    rig.cache.look_up([one], 10.0)
    assert rig.cache.sweep(10.004).to_queue == []
    assert rig.cache.sweep(10.006).to_queue == [one]
    rig.remote.reply()
    assert not rig.cache.holds
    assert rig.cache.sweep(10.1).answered == []


def test_a_redis_that_takes_no_questions_costs_no_wait() -> None:
    rig = CacheRig(remote=True)
    assert rig.remote is not None
    rig.remote.takes_questions = False
    one = rig.record()
    assert rig.cache.look_up([one], 10.0).to_queue == [one]
    assert rig.counted("miss") == 1


def test_a_reply_for_the_version_before_a_switch_answers_nobody() -> None:
    rig = CacheRig(remote=True)
    assert rig.remote is not None
    one = rig.record()
    rig.cache.look_up([one], 10.0)
    rig.remote.stored = {rig.remote.asked[0]: b"old"}
    rig.maker.switch(2, one)
    rig.remote.reply()
    assert rig.cache.sweep(10.001).to_queue == [one]
