"""Bad input through a real worker: each bad record becomes exactly one dead letter, and its neighbours never notice."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from producers.outcomes import Outcome
from producers.topic_layout import plan_topics
from producers.topics import TopicAdmin
from schemas.headers import ERROR_PREFIX
from schemas.records import JSON, DeadLetter, Position, Stage
from tests.faults.conftest import Rig
from tests.faults.exchange import Exchange, Raw, answer_of, refusal_of
from tests.faults.harness import FaultRun
from tests.faults.input_cases import ANSWERED, CANARY, LIMITS, REFUSED, number
from tests.models.store_builder import CLASSES, publish

MOVES_ON_SECONDS = 10.0


def is_refusal(outcome: Outcome) -> TypeGuard[DeadLetter]:
    return isinstance(outcome, DeadLetter)


@dataclass
class Seen:
    """What became of every case: its outcomes, those of the records around it, and the seconds it all took."""

    run: FaultRun
    cases: dict[str, tuple[Raw, Position]] = field(default_factory=dict)
    around: dict[str, tuple[Position, Position]] = field(default_factory=dict)
    outcomes: dict[Position, list[Outcome]] = field(default_factory=dict)
    in_order: list[Position] = field(default_factory=list)
    seconds: float = 0.0

    def of(self, name: str) -> Outcome:
        """The one outcome of a case."""
        found = self.outcomes[self.cases[name][1]]
        assert len(found) == 1
        return found[0]


@pytest.fixture(scope="module")
def run(shared_rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultRun]:
    folder = tmp_path_factory.mktemp("bad-input")
    publish(folder / "store", model_class="omnivore")
    run = FaultRun(shared_rig, f"bad-{folder.name}", folder, partitions=2, proxied=False)
    with TopicAdmin(shared_rig.direct) as admin:
        admin.create(plan_topics(run.topics, LIMITS, partitions=2, replication=1))
    with run:
        run.start_worker(
            model={"name": "test", "version": "v1", "classes": CLASSES, "instances": 1},
            limits=LIMITS.model_dump(),
            batching={"max_batch_size": 8, "max_wait_ms": 5},
        )
        yield run


@pytest.fixture(scope="module")
def exchange(run: FaultRun) -> Iterator[Exchange]:
    with Exchange(run) as exchange:
        yield exchange


@pytest.fixture(scope="module")
def seen(run: FaultRun, exchange: Exchange) -> Seen:
    """Send every case between two good records, all to one partition, and wait for what becomes of them."""
    seen = Seen(run)
    records: list[Raw] = []
    names = [(name, record) for name, record, *_ in [*REFUSED, *ANSWERED]]
    for index, (_, record) in enumerate(names):
        records += [number(1000 + index), record, number(2000 + index)]
    began = time.monotonic()
    positions = exchange.send(records)
    exchange.collect(positions, 60)
    seen.seconds = time.monotonic() - began
    for index, (name, record) in enumerate(names):
        seen.cases[name] = (record, positions[3 * index + 1])
        seen.around[name] = (positions[3 * index], positions[3 * index + 2])
    exchange.read(0.5)
    seen.outcomes, seen.in_order = exchange.outcomes, exchange.in_order
    return seen


@pytest.mark.parametrize(("name", "stage", "code", "reason"), [(case[0], *case[2:]) for case in REFUSED])
def test_a_bad_record_becomes_one_dead_letter(seen: Seen, name: str, stage: Stage, code: str, reason: str) -> None:
    record, position = seen.cases[name]
    letter = refusal_of(seen.of(name))
    assert (letter.error.stage, letter.error.code) == (stage, code), letter.error
    assert reason in letter.error.message
    assert letter.error.message
    assert "0x" not in letter.error.message.replace("0x…", "")
    assert CANARY.decode() not in letter.error.message
    assert letter.source == position
    if letter.payload_omitted:
        assert letter.payload == b""
    else:
        assert (letter.key, letter.payload) == (record.key, record.value)
        assert len(letter.headers) == len(record.headers)


@pytest.mark.parametrize(("name", "answer"), [(case[0], case[2]) for case in ANSWERED])
def test_an_odd_but_sound_record_is_answered_right(seen: Seen, name: str, answer: Any) -> None:
    found = answer_of(seen.of(name))
    assert found == (pytest.approx(answer, abs=1.5) if isinstance(answer, tuple) else answer)


def test_the_records_around_a_bad_one_get_their_answers(seen: Seen) -> None:
    for index, name in enumerate(seen.cases):
        before, after = (seen.outcomes[position] for position in seen.around[name])
        assert [answer_of(outcome) for outcome in before] == [1000 + index], name
        assert [answer_of(outcome) for outcome in after] == [2000 + index], name


def test_results_and_dead_letters_keep_the_order_of_their_partition(seen: Seen) -> None:
    for kind in (True, False):
        offsets = [
            position.offset
            for position in seen.in_order
            if position.partition == 0
            and (len(seen.outcomes[position]) == 1)
            and is_refusal(seen.outcomes[position][0]) is kind
        ]
        assert offsets == sorted(offsets)


def test_the_partition_moves_on(seen: Seen) -> None:
    assert seen.seconds < MOVES_ON_SECONDS


class RawName(str):
    """A header name that is not text, past a client that insists on text."""

    __slots__ = ()

    def encode(self, *_: Any) -> bytes:
        """The bytes that are sent."""
        return b"\xff\xfename"


def test_a_header_name_that_is_not_text_is_a_dead_letter_and_the_partition_moves_on(
    run: FaultRun, exchange: Exchange
) -> None:
    # Among many: what the interpreter does with the client's broken headers changes once the code is hot.
    exchange.ask(*[number(x)._replace(partition=1) for x in range(200)])
    producer = KafkaProducer(bootstrap_servers=run.rig.stack.bootstrap)
    topic = run.topics.requests[0]
    try:
        sent = producer.send(topic, b'{"x": 1}', partition=1, headers=[("a", b"b"), (RawName("n"), b"v")]).get(10)
    finally:
        producer.close()
    behind = exchange.send([number(2)._replace(partition=1)])
    bad, good = exchange.collect([Position(topic, 1, sent.offset), *behind])
    letter = refusal_of(bad)
    assert (letter.error.stage, letter.error.code) == (Stage.DECODE, "envelope")
    assert letter.payload == b'{"x": 1}'
    assert answer_of(good) == 2


def test_a_tombstone_is_passed_over_without_an_answer(exchange: Exchange) -> None:
    before, tombstone, after = exchange.send([number(1), Raw(None), number(2)])
    assert [answer_of(outcome) for outcome in exchange.collect([before, after])] == [1, 2]
    exchange.read(0.3)
    assert tombstone not in exchange.outcomes


def test_each_record_with_a_repeated_id_is_answered_for_itself(exchange: Exchange) -> None:
    headers = [("ce_id", b"again")]
    records = [Raw(b'{"x": %d}' % x, headers, partition=x % 2) for x in range(6)]
    outcomes = exchange.ask(*records)
    assert [answer_of(outcome) for outcome in outcomes] == list(range(6))
    assert {outcome.request_id for outcome in outcomes} == {"again"}


def test_a_request_cannot_forge_the_history_of_its_dead_letter(exchange: Exchange) -> None:
    forged = [(ERROR_PREFIX + "topic", b"elsewhere"), (ERROR_PREFIX + "made-up", b"1"), ("mine", b"kept")]
    letter = refusal_of(exchange.ask(Raw(b"\xfe", forged))[0])
    assert letter.source.topic != "elsewhere"
    assert dict(letter.headers) == {
        f"x-forwarded-{ERROR_PREFIX}topic": b"elsewhere",
        f"x-forwarded-{ERROR_PREFIX}made-up": b"1",
        "mine": b"kept",
    }


def test_what_a_console_producer_types_is_answered_and_a_plain_client_can_read_it(
    run: FaultRun, exchange: Exchange
) -> None:
    producer = KafkaProducer(bootstrap_servers=run.rig.stack.bootstrap)
    topic = run.topics.requests[0]
    try:
        sent = producer.send(topic, b'{"x": 41.5}').get(10)
    finally:
        producer.close()
    place = Position(topic, sent.partition, sent.offset)
    outcome = exchange.collect([place])[0]
    consumer = KafkaConsumer(
        bootstrap_servers=run.rig.stack.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    try:
        consumer.assign([TopicPartition(run.topics.results, outcome.position.partition)])
        consumer.seek(TopicPartition(run.topics.results, outcome.position.partition), outcome.position.offset)
        record = next(iter(consumer.poll(10_000).values()))[0]
    finally:
        consumer.close()
    value = json.loads(record.value)
    assert (value["status"], value["output"]) == ("ok", 41.5)
    assert value["source"] == {"topic": topic, "partition": place.partition, "offset": place.offset}
    headers = {name: data.decode() for name, data in record.headers}
    assert headers["ce_id"] == f"{topic}-{place.partition}-{place.offset}"
    assert headers["content-type"] == JSON
    assert (headers["modelname"], headers["modelversion"]) == ("test", "v1")


def test_no_payload_and_no_address_is_in_the_log_or_in_a_reason(run: FaultRun, seen: Seen) -> None:
    log = run.worker.log.read_bytes()
    reasons = [letter.error.message for letters in seen.outcomes.values() for letter in letters if is_refusal(letter)]
    assert len(reasons) >= len(REFUSED)
    for text in (log, "\n".join(reasons).encode()):
        assert CANARY not in text
        assert re.search(rb"0x[0-9a-f]{4}", text) is None


def test_the_worker_was_never_restarted_and_the_books_are_clean(run: FaultRun, seen: Seen) -> None:
    assert run.worker.log.read_text().count("member started") == 1
    assert "model process ended" not in run.worker.log.read_text()
    run.finish().check()
