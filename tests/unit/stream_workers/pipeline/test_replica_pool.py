"""The pool against a model process that the test plays itself, over real sockets and a real ring."""

from collections.abc import Iterator

import pytest

from schemas.settings import TopicSettings
from stream_workers.batching.work import ServedVersion
from stream_workers.links.messages import Detach, Done, Message, Raised, Ready, RecordDone
from stream_workers.pipeline.contract import BatchAnswered, BatchLost, BatchRaised
from tests.unit.stream_workers.pipeline.pool_stage import Stage

V1, V2 = ServedVersion("m", "v1", 1), ServedVersion("m", "v2", 2)


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.pool.close()
    made.link.close()
    for model in made.models:
        model.socket.close()


def test_no_batch_is_possible_before_a_model_process_is_ready(stage: Stage) -> None:
    (model,) = stage.load(V1)
    stage.announce(V1, model)
    stage.link.send(*model.attach)
    stage.collect()
    assert (stage.pool.has_instances(), stage.pool.count_free_slots(), stage.pool.active_version()) == (False, 0, None)
    with pytest.raises(ValueError, match="no slot of version none is free"):
        stage.submit(1)
    model.say(Ready(V1))
    stage.collect()
    assert (stage.pool.has_instances(), stage.pool.count_free_slots(), stage.pool.active_version()) == (True, 2, V1)


def test_batches_go_to_the_process_with_the_least_in_hand(stage: Stage) -> None:
    one, other = stage.serve(V1, 2)
    for number in range(4):
        stage.submit(number)
    assert stage.pool.count_free_slots() == 0
    assert [order.batch_id for order in one.orders()] == [0, 2]
    assert [order.batch_id for order in other.orders()] == [1, 3]


def test_an_urgent_batch_goes_to_the_process_whose_batch_has_run_longest() -> None:
    stage = Stage(TopicSettings(requests=("urgent", "bulk"), priorities={"bulk": 1}))
    late, early = stage.serve(V1, 2)
    for number, now in ((1, 1.0), (2, 2.0), (3, 2.0), (4, 2.0)):
        stage.now = now
        stage.submit(number, priority=1)
    stage.now = 3.0
    late.say(Done(1, [1, 1], [], 1.0, b"ab"))  # so its next batch begins now, and that of the other has run since 2
    stage.collect()
    stage.submit(5, priority=0)
    stage.submit(6, priority=0)
    assert [order.batch_id for order in early.orders()] == [2, 4, 5]
    assert [order.batch_id for order in late.orders()] == [1, 3, 6], "an urgent batch in hand counts more"
    stage.pool.close()
    stage.link.close()
    for model in (late, early):
        model.socket.close()


def test_an_idle_process_comes_before_a_busy_one_and_the_first_of_two_idle_ones_again() -> None:
    stage = Stage(TopicSettings(requests=("urgent", "bulk"), priorities={"bulk": 1}))
    busy, idle = stage.serve(V1, 2)
    stage.now = 1.0
    stage.submit(1, priority=1)
    stage.now = 2.0
    stage.submit(2, priority=1)
    idle.say(Done(2, [1, 1], [], 1.0, b"ab"))  # idle since later than the other has been busy
    stage.collect()
    stage.submit(3, priority=0)
    assert [order.batch_id for order in idle.orders()] == [2, 3]
    busy.say(Done(1, [1, 1], [], 1.0, b"ab"))
    idle.say(Done(3, [1, 1], [], 1.0, b"ab"))
    stage.collect()
    stage.submit(4, priority=0)
    busy.say(Done(4, [1, 1], [], 1.0, b"ab"))
    stage.collect()
    stage.submit(5, priority=0)
    assert [order.batch_id for order in busy.orders()] == [1, 4, 5], "its caches are warm, and a retry meets its state"
    stage.pool.close()
    stage.link.close()
    for model in (busy, idle):
        model.socket.close()


def test_slots_in_reserve_are_for_urgent_batches_only() -> None:
    stage = Stage(TopicSettings(requests=("urgent", "bulk"), priorities={"bulk": 1}))
    (model,) = stage.serve(V1)
    assert (stage.pool.count_free_slots(1), stage.pool.count_free_slots(0)) == (2, 4)
    stage.submit(1, priority=1)
    stage.submit(2, priority=1)
    assert (stage.pool.count_free_slots(1), stage.pool.count_free_slots(0)) == (0, 2)
    with pytest.raises(ValueError, match="no slot of version v1 is free"):
        stage.submit(3, priority=1)
    stage.submit(4, priority=0)
    stage.submit(5, priority=0)
    assert stage.pool.count_free_slots(0) == 0
    orders = model.orders()
    for number in (1, 2, 4):
        model.say(Done(number, [1, 1], [], 1.0, b"ab"))
    stage.collect()
    assert stage.pool.count_free_slots(1) == 2, "urgent batches take nothing from the others' share of slots"
    assert [(order.batch_id, order.priority) for order in orders] == [(1, 1), (2, 1), (4, 0), (5, 0)]
    stage.pool.close()
    stage.link.close()
    model.socket.close()


def test_an_instance_is_idle_until_it_has_a_batch(stage: Stage) -> None:
    stage.serve(V1)
    assert stage.pool.has_idle_instance()
    stage.submit(1)
    assert not stage.pool.has_idle_instance()


def test_payloads_lie_in_the_slot_that_the_order_names(stage: Stage) -> None:
    (model,) = stage.serve(V1)
    stage.submit(1, records=3)
    (order,) = model.orders()
    with model.ring.read(order.slot, sum(order.lengths)) as view:
        assert view == b'{"x": 0}{"x": 1}{"x": 2}'
    assert (order.content_types, order.keys) == (["application/json"], [None])
    assert order.request_ids == ["r-0", "r-1", "r-2"]


def test_answers_come_back_under_the_version_that_the_batch_met(stage: Stage) -> None:
    (old,) = stage.serve(V1)
    first = stage.submit(1)
    (new,) = stage.serve(V2)
    assert stage.pool.active_version() == V2
    second = stage.submit(2)
    assert stage.link.released == []
    old.say(Done(1, [1, 2], [], 3.0, b"abb"))
    new.say(Raised(2, "model", "E", "boom"))
    assert stage.collect() == [
        BatchAnswered(first, [b"a", b"bb"], V1, 3.0),
        BatchRaised(second, "model", "E", "boom", V2),  # type: ignore[arg-type]
    ]
    assert stage.link.released == [old.instance]


def test_a_new_epoch_of_the_same_version_renames_and_replaces_nothing(stage: Stage) -> None:
    (model,) = stage.serve(V1)
    stage.submit(1)
    later = ServedVersion("m", "v1", 9)
    stage.announce(later, model)
    stage.collect()
    stage.submit(2)
    for number in (1, 2):
        model.say(Done(number, [1, 1], [], 1.0, b"ab"))
    assert [outcome.version for outcome in stage.collect()] == [V1, later]
    assert stage.link.released == []


def test_answers_sent_before_the_end_count_even_when_the_reason_arrives_first(stage: Stage) -> None:
    (model,) = stage.serve(V1)
    first, second = stage.submit(1), stage.submit(2)
    model.say(Done(1, [1, 1], [], 1.0, b"ab"))
    model.ring.begin(2)
    model.socket.close()
    stage.link.send(Detach(model.instance, "model_out_of_memory", "gone"))
    answered, lost = stage.collect()
    assert answered == BatchAnswered(first, [b"a", b"b"], V1, 1.0)
    assert lost == BatchLost(second, [], True, None, "model_out_of_memory", "gone", V1)
    assert not stage.pool.has_instances()


def test_with_a_batch_in_preparation_both_are_suspect_and_no_record_is_the_culprit(stage: Stage) -> None:
    (model,) = stage.serve(V1)
    stage.submit(1)
    stage.submit(2)
    model.ring.begin(1)
    model.ring.touch(0)
    model.ring.prepare(2)
    stage.link.send(Detach(model.instance, "model_crashed", "exit code 7"))
    model.socket.close()
    lost = [outcome for outcome in stage.collect() if isinstance(outcome, BatchLost)]
    assert [(one.batch.id, one.suspect, one.culprit) for one in lost] == [(1, True, None), (2, True, None)]


def test_a_process_without_progress_is_killed_once_and_its_batch_lost_as_timed_out(stage: Stage) -> None:
    (model,) = stage.serve(V1)
    batch = stage.submit(1)
    model.ring.begin(1)
    model.ring.touch(1)
    for now in (5.0, 9.0, 15.1, 16.0):
        stage.now = now
        assert stage.collect() == []
    assert stage.link.killed == [(model.instance, "model_timeout")]
    assert stage.pool.count_free_slots() == 0
    model.socket.close()
    (lost,) = stage.collect()
    assert isinstance(lost, BatchLost)
    assert (lost.batch, lost.suspect, lost.culprit, lost.code) == (batch, True, 1, "model_timeout")


def test_slow_progress_is_progress(stage: Stage) -> None:
    (model,) = stage.serve(V1)
    stage.submit(1)
    for second in range(60):
        stage.now = float(second)
        model.ring.touch(second)
        stage.collect()
    assert stage.link.killed == []


@pytest.mark.parametrize(
    "answer",
    [
        Done(99, [1, 1], [], 1.0, b"ab"),
        Done(1, [1], [], 1.0, b"a"),
        Done(1, [1, 1, 1], [], 1.0, b"abc"),
        Done(1, [1, 1], [], 1.0, b"abc"),
        RecordDone(1, 1, b"a", None),
    ],
)
def test_an_answer_that_does_not_fit_ends_the_link_and_shifts_nothing(stage: Stage, answer: Message) -> None:
    (model,) = stage.serve(V1)
    batch = stage.submit(1)
    model.say(answer)
    assert stage.collect() == []
    stage.now = 5.0
    (lost,) = stage.collect()
    assert isinstance(lost, BatchLost)
    assert (lost.batch, lost.code) == (batch, "model_crashed")
    assert stage.link.killed == [(model.instance, "model_crashed")]


def test_the_answer_identity_is_that_of_the_version_that_serves(stage: Stage) -> None:
    assert stage.pool.answer_identity() == b""
    stage.serve(V1, 2, b"one")
    assert stage.pool.answer_identity() == b"one"
    stage.serve(V2, 1, b"two")
    assert stage.pool.answer_identity() == b"two"
    stage.serve(ServedVersion("m", "v1", 3), 1, b"one")
    assert stage.pool.answer_identity() == b"one"


def test_processes_of_one_version_that_differ_have_no_answer_identity(stage: Stage) -> None:
    stage.serve(V1, 1, b"one")
    stage.serve(V1, 1, b"other")
    assert stage.pool.answer_identity() == b""
    stage.serve(V1, 1, b"one")
    assert stage.pool.answer_identity() == b"", "answers of both may be about"
