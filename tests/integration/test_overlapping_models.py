"""Real model processes that prepare one batch while another runs: same answers, and blame where it belongs."""

from collections.abc import Iterator

import pytest

from stream_workers.batching.work import RunMode
from stream_workers.pipeline.contract import BatchAnswered, BatchLost
from tests.fakes.local_fleet import LocalFleet, settings_for
from tests.models.obedient import expected
from tests.models.store_builder import publish


@pytest.fixture(scope="module", params=[1, 2], ids=["one-thread", "two-threads"])
def fleet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalFleet]:
    tmp_path = tmp_path_factory.mktemp("fleet")
    publish(tmp_path / "store")
    settings = settings_for(
        tmp_path,
        model={"batch_timeout_seconds": 2.0, "load_timeout_seconds": 60, "decode_threads": request.param},
        batching={"slots": 3, "size_buckets": (4, 8)},
        worker={"max_restarts": 20},
    )
    local = LocalFleet(settings)
    local.serve()
    local.await_ready()
    yield local
    local.close()


def lose_all(fleet: LocalFleet, count: int) -> list[BatchLost]:
    """Wait for so many lost batches; returns them in the order of their numbers."""
    lost: list[BatchLost] = []
    while len(lost) < count:
        outcomes = fleet.pump_until(lambda: not fleet.pool.has_instances())
        outcomes += fleet.pump_until(lambda: fleet.pool.count_free_slots() > 0)
        lost += [outcome for outcome in outcomes if isinstance(outcome, BatchLost)]
    return sorted(lost, key=lambda outcome: outcome.batch.id)


def test_each_batch_gets_its_own_answers_and_says_what_was_padded(fleet: LocalFleet) -> None:
    fleet.await_ready()
    waiting = {}
    answered: dict[int, BatchAnswered] = {}
    for number in range(60):
        while not fleet.pool.count_free_slots():
            answered |= {one.batch.id: one for one in fleet.pump() if isinstance(one, BatchAnswered)}
        values = list(range(number, number + 1 + number % 7))
        waiting[fleet.submit([{"x": x} for x in values]).id] = values
    outcomes = fleet.pump_until(lambda: fleet.pool.count_free_slots() == 3)
    answered |= {one.batch.id: one for one in outcomes if isinstance(one, BatchAnswered)}

    assert answered.keys() == waiting.keys()
    for batch_id, values in waiting.items():
        outputs = [float(output) for output in answered[batch_id].outcomes if isinstance(output, bytes)]
        assert outputs == [expected(x) for x in values]
        assert answered[batch_id].padded == (4 if len(values) <= 4 else 8) - len(values)


def test_when_two_batches_were_in_work_both_are_suspect_and_no_record_is_accused(fleet: LocalFleet) -> None:
    fleet.await_ready()
    fleet.submit([{"x": 1}, {"x": 2, "do": "sleep"}])
    fleet.submit([{"x": 1}, {"x": 2, "do": "pre_exit"}])
    fleet.submit([{"x": 1}])

    running, preparing, waiting = lose_all(fleet, 3)

    assert (running.code, running.detail) == ("model_crashed", "exit code 7")
    assert (running.suspect, preparing.suspect, waiting.suspect) == (True, True, False)
    assert (running.culprit, preparing.culprit, waiting.culprit) == (None, None, None)


def test_a_batch_that_was_ready_is_not_suspect_when_the_one_that_ran_hangs(fleet: LocalFleet) -> None:
    fleet.await_ready()
    fleet.submit([{"x": 1, "do": "sleep"}])
    fleet.submit([{"x": 1}])

    running, ready = lose_all(fleet, 2)

    assert (running.code, running.suspect) == ("model_timeout", True)
    assert not ready.suspect


def test_isolated_records_run_alone_and_the_guilty_one_is_named(fleet: LocalFleet) -> None:
    fleet.await_ready()
    fleet.submit([{"x": 1}])
    outcome = fleet.run([{"x": 1}, {"x": 2, "do": "pre_exit"}, {"x": 3}], RunMode.ISOLATED)
    if isinstance(outcome, BatchAnswered):
        (outcome,) = fleet.pump_until(lambda: not fleet.pool.has_instances()) or lose_all(fleet, 1)

    assert isinstance(outcome, BatchLost)
    assert list(outcome.answered) == [b"3.0"]
    assert (outcome.suspect, outcome.culprit) == (True, 1)


def test_a_new_member_gets_no_answer_of_the_batches_of_the_old_one(fleet: LocalFleet) -> None:
    fleet.await_ready()
    for _ in range(3):
        fleet.submit([{"x": 100}] * 8)
    fleet.connect()

    outcome = fleet.run([{"x": 1}])

    assert isinstance(outcome, BatchAnswered)
    assert list(outcome.outcomes) == [b"3.0"]
