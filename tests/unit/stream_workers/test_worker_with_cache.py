"""The worker's loop with a result cache in it."""

from prometheus_client import CollectorRegistry

from schemas.settings import CacheSettings
from stream_workers.answer_cache import AnswerCache
from stream_workers.batching.work import Answer, Expired, Rejected
from stream_workers.metrics import WorkerMetrics
from tests.unit.stream_workers.builders import request
from tests.unit.stream_workers.worker_rig import P0, P1, Rig, fill


def cached_rig(**varied: int) -> Rig:
    rig = Rig(**varied)  # type: ignore[arg-type]
    rig.parts.cache = AnswerCache(CacheSettings(enabled=True), rig.pool, WorkerMetrics(CollectorRegistry()).cache)
    return rig


def outputs(rig: Rig) -> list[bytes | None]:
    return [getattr(item.outcome, "output", None) for item in rig.settlement.outcomes]


def test_repeats_meet_the_model_once_and_are_answered_in_offset_order() -> None:
    rig = cached_rig()
    fill(rig, 0, 3, payload=b"a")
    fill(rig, 1, 2, payload=b"a")
    fill(rig, 1, 1, payload=b"b")
    rig.member.assign(P0, P1)
    rig.turn(4)
    fill(rig, 0, 2, payload=b"a")
    rig.turn(3)
    assert sum(len(batch.items) for batch in rig.pool.batches) == 2
    assert [kind for kind in rig.kinds() if kind[0] == 0] == [(0, n, Answer) for n in range(5)]
    assert [kind for kind in rig.kinds() if kind[0] == 1] == [(1, n, Answer) for n in range(3)]
    assert outputs(rig).count(b"0") == 7
    assert rig.settlement.committed == {P0: 5, P1: 3}


def test_a_refused_record_takes_nobody_along_and_stores_nothing() -> None:
    rig = cached_rig()
    rig.pool.refuses = lambda one: one.request.offset == 0
    fill(rig, 0, 3, payload=b"a")
    rig.member.assign(P0)
    rig.turn(6)
    assert [kind[2] for kind in rig.kinds()] == [Rejected, Answer, Answer]


def test_a_record_that_follows_expires_at_its_own_deadline() -> None:
    rig = cached_rig(max_batch_size=1)
    rig.pool.holds = True
    fill(rig, 0, 1, payload=b"a")
    fill(rig, 0, 1, payload=b"a", deadline_ms=101_000)
    fill(rig, 0, 1, payload=b"a")
    rig.member.assign(P0)
    rig.turn(2)
    rig.now = 101.5
    rig.turn(1)
    rig.pool.holds = False
    rig.turn(3)
    assert [kind[2] for kind in rig.kinds()] == [Answer, Expired, Answer]
    assert len(rig.pool.batches) == 1


def test_a_record_that_leads_and_expires_in_the_model_is_followed_by_the_next() -> None:
    rig = cached_rig(max_batch_size=1)
    rig.pool.holds = True
    fill(rig, 0, 1, payload=b"a", deadline_ms=101_000)
    fill(rig, 0, 2, payload=b"a")
    rig.member.assign(P0)
    rig.turn(2)
    rig.now = 101.5
    rig.turn(2)
    rig.pool.holds = False
    rig.turn(4)
    assert [kind[2] for kind in rig.kinds()] == [Expired, Answer, Answer]
    assert outputs(rig) == [None, b"1", b"1"]


def test_a_leader_that_goes_with_its_partition_is_followed_by_one_of_another() -> None:
    rig = cached_rig(max_batch_size=1)
    rig.pool.holds = True
    fill(rig, 0, 2, payload=b"a")
    rig.member.assign(P0)
    rig.turn(1)
    fill(rig, 1, 2, payload=b"a")
    rig.member.assign(P0, P1)
    rig.turn(1)
    rig.member.lose(P0)
    rig.turn(1)
    rig.pool.holds = False
    rig.turn(4)
    assert rig.kinds() == [(1, 0, Answer), (1, 1, Answer)]
    assert rig.settlement.committed == {P1: 2}


def test_a_batch_that_raises_is_taken_apart_and_its_followers_are_answered() -> None:
    rig = cached_rig()
    rig.pool.raises = lambda one: one.request.payload == b"bad"
    log = rig.member.log.setdefault(P0, [])
    log += [request(n, payload=payload) for n, payload in enumerate([b"a", b"bad", b"a", b"bad", b"b", b"a"])]
    rig.member.assign(P0)
    rig.turn(20)
    assert [kind[2] for kind in rig.kinds()] == [Answer, Rejected, Answer, Rejected, Answer, Answer]
