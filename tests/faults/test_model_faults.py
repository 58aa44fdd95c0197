"""Models that raise, die, hang and miscount in a real worker: the guilty record pays, its neighbours are answered."""

import json
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from producers.outcomes import Outcome
from producers.topics import TopicAdmin
from schemas.records import DeadLetter, Position, Result, Stage, Status
from tests.faults.conftest import Rig
from tests.faults.exchange import Exchange, answer_of, refusal_of
from tests.faults.harness import FaultRun
from tests.faults.test_batch_span import MEGABYTE, write_batch
from tests.faults.trapped_worker import Numbers, Trapped
from tests.faults.worker_process import Role, wait_until
from tests.models.store_builder import CLASSES, publish

BATCH, PARTITIONS, BATCH_TIMEOUT_SECONDS = 16, 3, 3.0


@pytest.fixture(scope="module")
def trapped(shared_rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trapped]:
    folder = tmp_path_factory.mktemp("model-faults")
    numbers = Numbers(folder / "seen")
    publish(folder / "store", model_class="trap", seen=str(folder / "seen"))
    run = FaultRun(shared_rig, f"model-{folder.name}", folder, partitions=PARTITIONS, proxied=False)
    requests = (f"{run.group}-requests", f"{run.group}-requests-too")
    run.topics = run.topics.model_copy(update={"requests": requests})
    with run:
        run.start_worker(
            model={
                "name": "test",
                "version": "v1",
                "classes": CLASSES,
                "instances": 2,
                "batch_timeout_seconds": BATCH_TIMEOUT_SECONDS,
            },
            batching={"max_batch_size": BATCH, "max_wait_ms": 20},
            worker={"group": run.group, "state_dir": str(folder / "state"), "max_restarts": 20, **TIMEOUTS},
        )
        with Exchange(run) as exchange:
            yield Trapped(run, exchange, numbers)


TIMEOUTS = {"session_timeout_ms": 6000, "transaction_timeout_ms": 10_000, "start_timeout_seconds": 60}


def test_one_in_a_hundred_that_raises_is_refused_alone_and_in_order(trapped: Trapped) -> None:
    bad, outcomes = trapped.send_among_good("raise", 400, 100)
    assert len(bad) == 4
    for outcome in bad:
        error = refusal_of(outcome).error
        assert (error.stage, error.code, error.error_class) == (Stage.MODEL, "model_failure", "RuntimeError")
        assert "raised as asked" in error.message
    assert_in_order(trapped.exchange, outcomes)
    runs = trapped.numbers.count_seen()
    assert max(runs.values()) <= 2 * 4 + 3  # 2 log2 16 + 2 further runs


def assert_in_order(exchange: Exchange, outcomes: list[Outcome]) -> None:
    for kind in (Result, DeadLetter):
        wanted = {outcome.source for outcome in outcomes if isinstance(outcome, kind)}
        arrived = [position for position in exchange.in_order if position in wanted]
        assert arrived == sorted(arrived)


def test_a_record_that_raises_in_company_only_is_answered(trapped: Trapped) -> None:
    bad, _ = trapped.send_among_good("shy")
    assert isinstance(bad[0], Result)


def test_a_record_that_raises_once_is_answered(trapped: Trapped) -> None:
    bad, _ = trapped.send_among_good("once")
    assert isinstance(bad[0], Result)


def test_a_lone_record_that_raises_once_is_answered(trapped: Trapped) -> None:
    (x,) = trapped.numbers.take()
    assert answer_of(trapped.exchange.ask(trapped.record(x, "once"))[0]) == x


def test_a_wrong_count_never_shifts_an_answer(trapped: Trapped) -> None:
    bad, _ = trapped.send_among_good("short")
    error = refusal_of(bad[0]).error
    assert (error.stage, error.code) == (Stage.POSTPROCESS, "model_failure")
    assert "0 answers for 1 records" in error.message


@pytest.mark.parametrize(
    ("do", "code"), [("segv", "model_crashed"), ("exit", "model_crashed"), ("sleep", "model_timeout")]
)
def test_a_record_that_kills_or_hangs_the_model_is_refused_and_nothing_moves(
    trapped: Trapped, do: str, code: str
) -> None:
    bad, _ = trapped.send_among_good(do)
    error = refusal_of(bad[0]).error
    assert (error.stage, error.code) == (Stage.MODEL, code)
    assert_nothing_moved(trapped)


def assert_nothing_moved(trapped: Trapped) -> None:
    assert trapped.run.worker.processes(Role.MEMBER) == trapped.members
    assert trapped.count_in_log('"partitions assigned"') == 1
    assert trapped.count_in_log('"partitions revoked"') == 0


def test_a_model_that_fails_on_everything_opens_a_breaker_and_one_answer_closes_it(trapped: Trapped) -> None:
    before = trapped.run.worker.processes(Role.MODEL_PROCESS)
    numbers = trapped.numbers.take(120)
    positions = trapped.exchange.send(trapped.record(x, "raise") for x in numbers)
    wait_until(lambda: "fails on every record" in trapped.health()[1], 20, "readiness says why")
    for outcome in trapped.exchange.collect(positions, 30):
        assert refusal_of(outcome).error.code == "model_failure"
    trapped.send_among_good("")
    wait_until(lambda: trapped.health()[0] == 200, 5, "ready again")
    assert trapped.run.worker.processes(Role.MODEL_PROCESS) == before
    assert_nothing_moved(trapped)


def test_waiting_requests_expire_in_time_although_the_model_is_busy(trapped: Trapped) -> None:
    trapped.wait_for_instances()
    busy: list[Position] = []
    for partition, x in enumerate(
        trapped.numbers.take(2), 1
    ):  # one for each instance; in their partition, what is behind them waits
        busy += trapped.exchange.send([trapped.record(x, "slow", partition=partition, seconds=2.5)])
        trapped.numbers.wait_until_seen(x)
    late = trapped.numbers.take(5 * BATCH)
    deadline_ms = int(time.time() * 1000) + 700
    due = time.monotonic() + 0.7
    headers = [("ce_deadline", str(deadline_ms))]
    positions = trapped.exchange.send(trapped.record(x)._replace(headers=headers) for x in late)
    outcomes = trapped.exchange.collect(positions, 10)
    assert {outcome.status for outcome in outcomes if isinstance(outcome, Result)} == {Status.EXPIRED}
    assert all(isinstance(outcome, Result) and outcome.output is None for outcome in outcomes)
    # Both models are busy for at least 1.5 s more: nothing waited for them.
    assert max(trapped.exchange.arrived_at[position] for position in positions) < due + 1.2
    assert trapped.exchange.outcomes.keys().isdisjoint(busy)
    after = trapped.numbers.take()[0]
    assert answer_of(trapped.exchange.ask(trapped.record(after))[0]) == after
    # Only what stood ready in the model processes' second slots, one batch each, can still have met the model.
    seen = trapped.numbers.count_seen()
    assert sum(x in seen for x in late) <= 2 * BATCH


def test_batches_fill_when_enough_is_waiting(trapped: Trapped) -> None:
    numbers = trapped.numbers.take(20 * BATCH)
    outcomes = trapped.exchange.ask(*(trapped.record(x, partition=x % PARTITIONS) for x in numbers))
    sizes = Counter(outcome.timings.batch_size for outcome in outcomes if isinstance(outcome, Result))
    assert max(sizes) == BATCH
    assert sizes[BATCH] >= 10 * BATCH


def test_a_batch_that_unfolds_beyond_the_limits_is_stepped_over(trapped: Trapped) -> None:
    member = trapped.members[0]
    topic = trapped.run.topics.requests[1]
    before, after = (trapped.record(x, topic=1) for x in trapped.numbers.take(2))
    (first,) = trapped.exchange.send([before])
    write_bomb(trapped.run.rig, topic, first.partition)
    resident = member.memory_info().rss
    (last,) = trapped.exchange.send([after])
    bomb = [Position(topic, 0, first.offset + place) for place in range(1, 4)]
    assert last.offset == first.offset + 4
    began = time.monotonic()
    outcomes = trapped.exchange.collect([first, *bomb, last], 20)
    assert time.monotonic() - began < 10
    assert answer_of(outcomes[0]) == json.loads(before.value or b"")["x"]
    assert answer_of(outcomes[-1]) == json.loads(after.value or b"")["x"]
    for position, outcome in zip(bomb, outcomes[1:-1], strict=True):
        letter = refusal_of(outcome)
        assert (letter.source, letter.error.stage, letter.error.code) == (position, Stage.DECODE, "unreadable_batch")
        assert f"offsets {bomb[0].offset} to {bomb[-1].offset}" in letter.error.message
    assert member.memory_info().rss - resident < 100 * MEGABYTE
    assert_nothing_moved(trapped)


def test_a_batch_with_a_flipped_byte_is_never_answered_and_is_stepped_over(trapped: Trapped) -> None:
    topic, numbers = trapped.run.topics.requests[1], trapped.numbers.take(4)
    stopped = trapped.run.worker.pause(Role.MEMBER)
    try:
        # The fetch that waits at the broker is answered by the first; the second lies there until the member goes on.
        before, bad, after = (trapped.exchange.send([trapped.record(x, partition=1, topic=1)])[0] for x in numbers[:3])
        (log,) = trapped.run.rig.stack.data_dir.rglob(f"{topic}-1/*.log")
        written = b'{"x": %d}' % numbers[1]
        place = log.read_bytes().rindex(written)
        with log.open("r+b") as file:
            file.seek(place)
            file.write(b'{"x": %d}' % numbers[3])
    finally:
        trapped.run.worker.resume(stopped)
    outcomes = trapped.exchange.collect([before, bad, after], 20)
    assert [answer_of(outcome) for outcome in outcomes[::2]] == [numbers[0], numbers[2]]
    letter = refusal_of(outcomes[1])
    assert (letter.source, letter.error.code) == (bad, "unreadable_batch")
    assert not {numbers[1], numbers[3]} & trapped.numbers.count_seen().keys()
    assert_nothing_moved(trapped)


def write_bomb(rig: Rig, topic: str, partition: int) -> None:
    assert partition == 0
    write_batch(rig, topic, *[bytes(50 * MEGABYTE)] * 3, codec="zstd", partition=0)


def test_nothing_behind_an_unfinished_record_is_committed_and_a_kill_doubles_nothing(trapped: Trapped) -> None:
    trapped.wait_for_instances()
    (slow,) = trapped.numbers.take()
    (place,) = trapped.exchange.send([trapped.record(slow, "slow", partition=2, seconds=2.5)])
    trapped.numbers.wait_until_seen(slow)
    others = trapped.numbers.take(6 * BATCH)
    positions = trapped.exchange.send(
        trapped.record(x, partition=x % PARTITIONS, topic=x // PARTITIONS % 2) for x in others
    )
    behind = [one for one in positions if (one.topic, one.partition) == (place.topic, place.partition)]
    free = [one for one in positions if one not in behind]
    while sum(one in trapped.exchange.outcomes for one in free) < len(free) // 2:
        trapped.exchange.read()
    assert trapped.committed()[place.topic, place.partition] == place.offset
    assert not trapped.exchange.outcomes.keys() & {place, *behind}
    trapped.run.worker.kill(Role.MEMBER)
    outcomes = trapped.exchange.collect([place, *positions], 30)
    assert [answer_of(outcome) for outcome in outcomes] == [slow, *others]
    trapped.run.wait_until_drained()
    ends = {(one.topic, one.partition): one.offset + 1 for one in positions}
    assert {key: trapped.committed()[key] for key in ends} == ends


def test_at_the_end_every_record_has_one_outcome_in_order(trapped: Trapped) -> None:
    exchange, topics = trapped.exchange, trapped.run.topics.requests
    trapped.run.wait_until_drained()
    exchange.read(0.5)
    with TopicAdmin(trapped.run.rig.direct) as admin:
        ends = admin.end_offsets(topics)
    assert len(ends) == len(topics) * PARTITIONS
    every = {Position(*key, offset) for key, end in ends.items() for offset in range(end)}
    assert exchange.outcomes.keys() == every
    assert all(len(outcomes) == 1 for outcomes in exchange.outcomes.values())
    for key in ends:
        assert_in_order(exchange, [exchange.outcomes[one][0] for one in every if (one.topic, one.partition) == key])
