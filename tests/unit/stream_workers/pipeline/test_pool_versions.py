"""Several versions in one pool: each batch meets its own, and only what is not named any more goes."""

from collections.abc import Iterator

import pytest

from stream_workers.batching.work import ServedVersion
from stream_workers.links.messages import Detach, Done, Preparation, Ready, Residents, ResidentSet
from stream_workers.pipeline.contract import Refusal, Residency
from tests.unit.stream_workers.pipeline.pool_stage import Stage

V1, V2, V3 = (ServedVersion("m", f"v{number}", number) for number in (1, 2, 3))


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.pool.close()
    made.link.close()
    for model in made.models:
        model.socket.close()


def test_each_batch_goes_to_a_process_of_its_own_version(stage: Stage) -> None:
    (one,) = stage.serve(V1)
    (two,) = stage.serve(V2, beside=[one])
    for number, version in enumerate((V1, V2, V1, V2)):
        stage.submit(number, version=version)
    assert [order.batch_id for order in one.orders()] == [0, 2]
    assert [order.batch_id for order in two.orders()] == [1, 3]
    assert (stage.pool.count_free_slots(0, V1), stage.pool.count_free_slots(0, V2)) == (0, 0)
    with pytest.raises(ValueError, match="no slot of version v1 is free"):
        stage.submit(5, version=V1)


def test_a_warm_version_counts_for_nothing_unless_it_is_asked_about(stage: Stage) -> None:
    (old,) = stage.serve(V1)
    stage.serve(V2, beside=[old])
    stage.submit(1)
    assert stage.pool.count_free_slots() == 1
    assert not stage.pool.has_idle_instance()
    assert stage.pool.has_idle_instance(V1)
    assert (stage.pool.has_instances(V1), stage.pool.has_instances(V3)) == (True, False)
    assert stage.link.released == []


def test_an_answer_carries_the_version_and_epoch_of_its_batch(stage: Stage) -> None:
    (model,) = stage.serve(V1)
    later = ServedVersion("m", "v1", 7)
    stage.submit(1, version=later)
    model.say(Done(1, [1, 1], [], 1.0, b"ab"))
    assert [outcome.version for outcome in stage.collect()] == [later]


def test_a_version_is_resident_from_ready_to_lost(stage: Stage) -> None:
    (one,) = stage.serve(V1)
    (two,) = stage.load(V2)
    stage.announce(V1, one, two)
    stage.link.send(*two.attach)
    stage.collect()
    assert stage.pool.resident() == {"v1"}
    two.say(Ready(V2))
    stage.collect()
    assert stage.pool.resident() == {"v1", "v2"}
    two.socket.close()
    stage.collect()
    assert stage.pool.resident() == {"v1"}
    stage.link.send(Detach(two.instance, "model_crashed", "gone"))
    stage.collect()
    assert stage.pool.resident() == {"v1"}


def test_the_precision_of_a_version_is_known_once_a_process_of_it_is_ready_and_stays_known(stage: Stage) -> None:
    (one,) = stage.serve(V1)
    (two,) = stage.load(V2)
    stage.announce(V1, one, two)
    stage.link.send(*two.attach)
    stage.collect()
    assert stage.pool.precision_of("v2") == ""
    two.say(Ready(V2, precision="bf16"))
    stage.collect()
    two.socket.close()
    stage.collect()
    # Answers of it may still be waiting to be written.
    assert stage.pool.precision_of("v2") == "bf16"


def test_the_old_version_is_left_only_when_a_process_of_the_new_one_is_ready(stage: Stage) -> None:
    (old,) = stage.serve(V1)
    (new,) = stage.load(V2)
    stage.announce(V2, new)
    stage.link.send(*new.attach)
    stage.collect()
    assert (stage.pool.active_version(), stage.pool.count_free_slots()) == (V1, 2)
    assert stage.link.released == []
    new.say(Ready(V2))
    stage.collect()
    stage.collect()
    assert stage.pool.active_version() == V2
    assert stage.link.released == [old.instance]


def test_a_process_that_is_not_named_any_more_goes_after_its_last_batch(stage: Stage) -> None:
    (one,) = stage.serve(V1)
    (two,) = stage.serve(V2, beside=[one])
    stage.submit(1, version=V1)
    stage.announce(V2, two)
    stage.collect()
    assert stage.pool.count_free_slots(0, V1) == 0
    assert stage.link.released == []
    one.say(Done(1, [1, 1], [], 1.0, b"ab"))
    assert len(stage.collect()) == 1
    assert stage.link.released == [one.instance]


def test_what_is_loaded_ready_refused_and_failed_is_told_as_it_was_said(stage: Stage) -> None:
    sets = [ResidentSet("v1", [], True), ResidentSet("v2", [], False)]
    for preparation, residency in [
        (None, Residency(("v1",))),
        (Preparation("c"), Residency(("v1",), preparing="c")),
        (Preparation("c", is_ready=True), Residency(("v1",), ready="c")),
        (Preparation("c", refusal="no"), Residency(("v1",), refused=Refusal("c", "no"))),
    ]:
        stage.link.send(Residents(V1, sets, preparation))
        stage.collect()
        assert stage.pool.residency() == residency
    stage.link.send(Residents(V1, sets, None, {"v3": "not there"}))
    stage.collect()
    assert stage.pool.residency().failed == {"v3": "not there"}


def test_identities_are_told_by_version(stage: Stage) -> None:
    (one,) = stage.serve(V1, identity=b"one")
    stage.serve(V2, identity=b"two", beside=[one])
    assert (stage.pool.answer_identity(V1), stage.pool.answer_identity(V2)) == (b"one", b"two")
    assert stage.pool.answer_identity() == b"two"
    assert stage.pool.answer_identity(V3) == b""
