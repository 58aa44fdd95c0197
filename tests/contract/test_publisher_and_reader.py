"""Publisher, reader and topics against a real broker."""

import os
import signal
import threading

import numpy
import pytest
from kafka import KafkaProducer

from producers.ask import publish_and_wait
from producers.dead_letters import ReplayFilter, replay_dead_letters
from producers.kafka_publisher import Publisher, PublisherOptions
from producers.record_reader import RecordReader
from producers.record_size import SizeLimits
from producers.result_reader import ResultReader
from producers.topics import TopicAdmin, create_topics, describe_topics
from schemas.errors import (
    ConfigurationError,
    PayloadTooLargeError,
    PublishError,
    StartUpTimeoutError,
    UnavailableError,
)
from schemas.headers import decode_request
from schemas.records import JPEG, JSON, NPY, TEXT, DeadLetter, Result
from schemas.settings import KafkaSettings
from tests.fakes.echo_responder import EchoResponder
from tests.fakes.pipeline_topics import make_pipeline

NOBODY = KafkaSettings(bootstrap="127.0.0.1:1")


@pytest.fixture
def settings(stack, unique):
    return make_pipeline(stack.bootstrap, unique)


def read_all(settings, topic):
    with RecordReader(settings.kafka, [topic], start="earliest") as reader:
        return list(reader.read_until(reader.end_offsets(), timeout_seconds=10))


def read_requests(settings):
    return [
        decode_request(*_place(record), record.timestamp_ms, record.key, record.value, record.headers)
        for record in read_all(settings, settings.topics.requests[0])
    ]


def _place(record):
    return record.position.topic, record.position.partition, record.position.offset


def test_requests_of_one_key_arrive_once_in_order_with_their_attributes(settings):
    with Publisher(settings.kafka, settings.topics.requests[0], source="test", clock=lambda: 1000.0) as publisher:
        ids = [
            publisher.publish(b"%d" % n, content_type=TEXT, key="camera", sequence=n, deadline_seconds=2.5)
            for n in range(500)
        ]
        publisher.flush(30)
        assert (publisher.counts.sent, publisher.counts.acked, publisher.counts.failed) == (500, 500, 0)
    requests = read_requests(settings)
    assert [request.id for request in requests] == ids
    assert [request.payload for request in requests] == [b"%d" % n for n in range(500)]
    assert {request.deadline_ms for request in requests} == {1_002_500}
    assert {request.partition for request in requests} == {requests[0].partition}
    assert dict(requests[7].headers)["ce_sequence"] == b"7"
    assert dict(requests[7].headers)["ce_source"] == b"test"


def test_json_arrays_and_images_carry_their_content_type(settings, tmp_path):
    image = tmp_path / "a.jpg"
    image.write_bytes(b"\xff\xd8\xff\xe0rest")
    with Publisher(settings.kafka, settings.topics.requests[0]) as publisher:
        publisher.publish_json({"a": 1}, key="k")
        publisher.publish_array(numpy.arange(3), key="k")
        publisher.publish_image_file(image, key="k")
    assert [request.content_type for request in read_requests(settings)] == [JSON, NPY, JPEG]


def test_a_delivery_is_reported_with_its_place(settings):
    deliveries = []
    reported = threading.Event()

    def report(delivery):
        deliveries.append(delivery)
        reported.set()

    with Publisher(settings.kafka, settings.topics.requests[0]) as publisher:
        request_id = publisher.publish(b"x", content_type=TEXT, on_delivery=report)
        assert reported.wait(10)
    assert [(delivery.request_id, delivery.error) for delivery in deliveries] == [(request_id, None)]
    assert deliveries[0].position in [request.position for request in read_requests(settings)]


def test_a_request_above_the_topics_own_limit_is_refused_before_it_is_sent(stack, unique):
    limits = make_pipeline(stack.bootstrap, unique).limits.model_copy(update={"payload_bytes": 1000})
    settings = make_pipeline(stack.bootstrap, f"{unique}-small", limits=limits)
    generous = PublisherOptions(limits=SizeLimits(payload_bytes=10**9))
    with Publisher(settings.kafka, settings.topics.requests[0], options=generous) as publisher:
        limit = publisher.limits.message_bytes
        with pytest.raises(PayloadTooLargeError, match=rf"max.message.bytes of the topic allows {limit}"):
            publisher.publish(b"x" * limit, content_type=TEXT, request_id="big")
        publisher.publish(b"x" * (limit - 600), content_type=TEXT)
        assert publisher.counts.sent == 1
    assert len(read_requests(settings)) == 1


def test_many_records_that_fit_are_not_refused_for_the_size_of_their_batch(stack, unique):
    limits = make_pipeline(stack.bootstrap, unique).limits.model_copy(update={"payload_bytes": 1000})
    settings = make_pipeline(stack.bootstrap, f"{unique}-small", limits=limits, partitions=1)
    with Publisher(settings.kafka, settings.topics.requests[0]) as publisher:
        for _ in range(2000):
            publisher.publish(b"x" * 900, content_type=TEXT)
    assert len(read_requests(settings)) == 2000


def test_the_send_buffer_is_bounded_and_nothing_is_dropped(settings):
    options = PublisherOptions(buffer_bytes=50_000, linger_ms=1)
    with Publisher(settings.kafka, settings.topics.requests[0], options=options) as publisher:
        for _ in range(200):
            publisher.publish(b"x" * 10_000, content_type=TEXT)
            assert publisher.counts.in_flight <= 5
    assert len(read_requests(settings)) == 200


def test_a_missing_topic_is_named_at_the_start(stack, unique):
    kafka = KafkaSettings(bootstrap=stack.bootstrap)
    with pytest.raises(ConfigurationError, match=f"no topic {unique}: run `headrace topics create`"):
        Publisher(kafka, unique).start()
    with pytest.raises(ConfigurationError, match=f"no topic {unique}"):
        ResultReader(kafka, unique, f"{unique}-dead").start()


def test_a_broker_that_does_not_answer_is_named_with_the_time_it_was_given():
    options = PublisherOptions(start_timeout_seconds=0.5)
    with pytest.raises(StartUpTimeoutError, match=r"127\.0\.0\.1:1 did not answer within 0\.5 s"):
        Publisher(NOBODY, "any", options=options).start()
    with pytest.raises(StartUpTimeoutError, match=r"127\.0\.0\.1:1"):
        ResultReader(NOBODY, "any", "other", start_timeout_seconds=0.5).start()
    with pytest.raises(StartUpTimeoutError, match=r"127\.0\.0\.1:1"):
        TopicAdmin(NOBODY, start_timeout_seconds=0.5).start()


def test_a_closed_publisher_refuses_requests(settings):
    publisher = Publisher(settings.kafka, settings.topics.requests[0])
    with pytest.raises(PublishError, match="not started"):
        publisher.publish(b"x", content_type=TEXT)


def test_a_question_gets_its_answer(settings):
    with EchoResponder(settings, settings.topics.requests[0]):
        outcome = publish_and_wait(settings, b'{"a":1}', content_type=JSON, key="k")
    assert isinstance(outcome, Result)
    assert bytes(outcome.output) == b'{"a":1}'


def test_results_and_dead_letters_are_waited_for_by_id_in_any_order(settings):
    topics = settings.topics

    def decide(request):
        return "reject" if request.payload == b"1" else "ok"

    with (
        ResultReader(settings.kafka, topics.results, topics.dead_letters) as reader,
        EchoResponder(settings, topics.requests[0], decide),
        Publisher(settings.kafka, topics.requests[0]) as publisher,
    ):
        ids = [publisher.publish(b"%d" % n, content_type=TEXT) for n in range(20)]
        publisher.flush(10)
        assert reader.wait_for(ids[19], 20).request_id == ids[19]
        refused = reader.wait_for(ids[1], 20)
        rest = reader.wait_for_all(ids[2:19], 20)
    assert isinstance(refused, DeadLetter)
    assert refused.payload == b"1"
    assert set(rest) == set(ids[2:19])


def test_an_outcome_that_does_not_come_is_named(settings):
    with (
        ResultReader(settings.kafka, settings.topics.results, settings.topics.dead_letters) as reader,
        pytest.raises(UnavailableError, match=r"request r1 has no outcome after 0\.1 s"),
    ):
        reader.wait_for("r1", 0.1)


def test_records_that_are_no_outcomes_are_counted_and_stepped_over(settings):
    topics = settings.topics
    producer = KafkaProducer(bootstrap_servers=settings.kafka.bootstrap)
    for topic in (topics.results, topics.dead_letters):
        for value in (b"\xff\x00", b"", b"[" * 10_000, b"{}"):
            producer.send(topic, value=value)
        producer.send(topic, key=b"tombstone")
        producer.send(topic, value=b"x", headers=[("ce_id", b"\xff")])
    producer.close(timeout=10)
    with EchoResponder(settings, topics.requests[0]):
        publish_and_wait(settings, b"1", content_type=JSON)
    with ResultReader(settings.kafka, topics.results, topics.dead_letters, start="earliest") as reader:
        assert len(list(reader.read_to_end())) == 1
        assert reader.malformed == 12


class _BadName(str):
    """A header name that is not UTF-8, as any other client may write it."""

    __slots__ = ()

    def encode(self, *_):
        return b"\xff\xfe"


def test_a_batch_that_the_client_cannot_take_apart_is_stepped_over_exactly(settings):
    topic = settings.topics.requests[0]
    for batch in (["a", "bad", "b"], ["c", "d"]):
        producer = KafkaProducer(bootstrap_servers=settings.kafka.bootstrap, linger_ms=200)
        for name in batch:
            headers = [(_BadName("x"), b"1")] if name == "bad" else []
            producer.send(topic, value=name.encode(), partition=0, headers=headers)
        producer.send(topic, value=b"other", partition=1)
        producer.close(timeout=10)
    with RecordReader(settings.kafka, [topic], start="earliest") as reader:
        records = list(reader.read_until(reader.end_offsets(), timeout_seconds=20))
        assert [record.value for record in records if record.position.partition == 0] == [b"a", b"c", b"d"]
        assert [record.value for record in records if record.position.partition == 1] == [b"other"] * 2
        assert reader.unreadable == 2


def test_a_reader_tells_a_silent_broker_from_one_that_has_nothing_new(settings, stack):
    topics = settings.topics
    with ResultReader(settings.kafka, topics.results, topics.dead_letters) as reader:
        assert reader.poll(0.1) == []
        reader.check_reachable(10.0)
        os.kill(stack.broker_pid, signal.SIGSTOP)
        try:
            assert reader.poll(0.1) == []
            with pytest.raises(UnavailableError):
                reader.check_reachable(0.5)
        finally:
            os.kill(stack.broker_pid, signal.SIGCONT)
        reader.check_reachable(10.0)


def test_a_reader_hides_what_a_transaction_has_not_committed(settings):
    topics = settings.topics
    with ResultReader(settings.kafka, topics.results, topics.dead_letters, start="earliest") as reader:
        producer = KafkaProducer(bootstrap_servers=settings.kafka.bootstrap, transactional_id=topics.results)
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topics.results, value=b"{}", partition=0).get(10)
        producer.abort_transaction()
        assert list(reader.read_to_end(timeout_seconds=10)) == []
        assert reader.malformed == 0
        producer.close(timeout=10)


def test_reading_can_begin_at_given_offsets(settings):
    topic = settings.topics.requests[0]
    with Publisher(settings.kafka, topic) as publisher:
        for n in range(10):
            publisher.publish(b"%d" % n, content_type=TEXT, key="k")
    partition = read_requests(settings)[0].partition
    with RecordReader(settings.kafka, [topic], start={(topic, partition): 7}) as reader:
        records = list(reader.read_until(reader.end_offsets(), timeout_seconds=10))
        assert [record.value for record in records] == [b"7", b"8", b"9"]
        assert reader.positions()[topic, partition] == 10


def test_topics_are_created_once_and_shortcomings_are_reported(settings):
    again = create_topics(settings.kafka, settings.topics, partitions=3)
    assert [report.created for report in again] == [False] * 5
    differences = {report.name: report.differences for report in again}
    assert differences.pop(settings.topics.control) == (), "cuts have one order, whatever requests have"
    assert set(differences.values()) == {("2 partitions instead of 3",)}
    requests, results, missing = describe_topics(
        settings.kafka, [settings.topics.requests[0], settings.topics.results, "absent"]
    )
    assert requests.timestamp_type == "LogAppendTime"
    assert results.max_message_bytes > settings.limits.result_bytes
    assert not missing.exists


def test_lag_counts_what_is_left_to_read_for_a_group_that_never_was(settings):
    topic = settings.topics.requests[0]
    with Publisher(settings.kafka, topic) as publisher:
        for _ in range(5):
            publisher.publish(b"x", content_type=TEXT)
    with TopicAdmin(settings.kafka) as admin:
        lag = admin.lag("nobody", [topic])
        assert sum(partition.lag for partition in lag) == 5
        assert all(partition.no_commit for partition in lag)
        assert sum(partition.lag for partition in admin.lag("nobody", [topic], start_from="latest")) == 0


def test_a_dead_letter_goes_back_as_it_came(settings):
    topics = settings.topics
    with (
        ResultReader(settings.kafka, topics.results, topics.dead_letters) as reader,
        EchoResponder(settings, topics.requests[0], lambda request: "reject") as responder,
    ):
        with Publisher(settings.kafka, topics.requests[0]) as publisher:
            attributes = {"key": "k", "headers": [("mine", b"1")]}
            first = publisher.publish(b"one", content_type=TEXT, **attributes)
            publisher.publish(b"two", content_type=TEXT, **attributes)
        reader.wait_for(first, 20)
        report = replay_dead_letters(settings, ReplayFilter(ids=frozenset([first])))
        assert (report.matched, report.sent, report.skipped) == (1, 1, {})
        reader.wait_for(first, 20)
        assert responder.seen[first] == 2
    original, again = (request for request in read_requests(settings) if request.id == first)
    assert (again.key, again.payload, again.headers) == (original.key, original.payload, original.headers)
