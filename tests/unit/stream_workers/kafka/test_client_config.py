"""What the worker asks of its client, where a default would cost it dearly."""

from schemas.settings import Settings, TopicSettings
from stream_workers.kafka.client_config import consumer_config, producer_config


def test_the_fetcher_rests_for_milliseconds_only_when_its_queue_was_full() -> None:
    config = consumer_config(Settings(), "w-0", lambda _: None)
    assert config["fetch.queue.backoff.ms"] <= 20


def test_with_lanes_little_is_prefetched_in_front_of_an_urgent_record() -> None:
    topics = TopicSettings(requests=("urgent", "bulk"), priorities={"bulk": 1})
    one, several = (
        consumer_config(settings, "w-0", lambda _: None)["queued.max.messages.kbytes"]
        for settings in (Settings(), Settings(topics=topics))
    )
    assert several * 8 <= one


def test_a_transaction_marker_is_not_waited_for_a_tenth_of_a_second() -> None:
    assert producer_config(Settings(), "w-0", lambda _: None)["retry.backoff.ms"] <= 10
