"""Client options and the map of client errors."""

import socket

import kafka.errors
import pytest

from producers.kafka_connection import await_broker, client_options, translate, translate_start
from schemas.errors import (
    ConfigurationError,
    PayloadTooLargeError,
    PipelineError,
    PublishError,
    StartUpTimeoutError,
    UnavailableError,
)
from schemas.settings import KafkaSettings


def all_client_errors() -> list[type[Exception]]:
    found = {kafka.errors.KafkaError}
    queue = list(found)
    while queue:
        kinds = queue.pop().__subclasses__()
        queue += kinds
        found.update(kinds)
    return sorted(found, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", all_client_errors(), ids=lambda kind: kind.__name__)
def test_every_client_error_has_a_place_in_our_tree(kind):
    error = translate(kind.__new__(kind), "doing", otherwise=PublishError)
    assert isinstance(error, PipelineError)
    assert kind.__name__ in str(error)
    if kind.retriable and not isinstance(error, ConfigurationError):
        assert isinstance(error, UnavailableError)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (kafka.errors.TopicAuthorizationFailedError(), ConfigurationError),
        (kafka.errors.SaslAuthenticationFailedError(), ConfigurationError),
        (kafka.errors.UnknownTopicOrPartitionError(), ConfigurationError),
        (kafka.errors.MessageSizeTooLargeError(), PayloadTooLargeError),
        (kafka.errors.RecordListTooLargeError(), PayloadTooLargeError),
        (kafka.errors.KafkaTimeoutError(), UnavailableError),
        (kafka.errors.NotLeaderForPartitionError(), UnavailableError),
        (kafka.errors.OutOfOrderSequenceNumberError(), PublishError),
        (TypeError("bad"), PublishError),
    ],
)
def test_errors_are_told_apart_by_what_must_happen(error, expected):
    assert type(translate(error, "doing", otherwise=PublishError)) is expected


def test_a_foreign_error_text_loses_its_memory_addresses():
    assert "0xdeadbeef" not in str(translate(ValueError("at 0xdeadbeef"), "doing"))


def test_an_error_at_the_start_names_address_and_limit():
    kafka_settings = KafkaSettings(bootstrap="broker:9092")
    error = translate_start(kafka.errors.KafkaTimeoutError(), kafka_settings, 3.0)
    assert isinstance(error, StartUpTimeoutError)
    assert "broker:9092 did not answer within 3 s" in str(error)
    refused = translate_start(kafka.errors.SaslAuthenticationFailedError(), kafka_settings, 3.0)
    assert isinstance(refused, ConfigurationError)


def test_options_spell_the_settings_and_the_secret():
    options = client_options(
        KafkaSettings(
            bootstrap="a:1, b:2",
            security_protocol="SASL_SSL",
            sasl_username="user",
            sasl_password="hunter2",
            ssl_ca_file="ca.pem",
        ),
        start_timeout_seconds=1.5,
    )
    assert options["bootstrap_servers"] == ["a:1", "b:2"]
    assert options["bootstrap_timeout_ms"] == 1500
    assert options["sasl_plain_password"] == "hunter2"
    assert options["ssl_cafile"] == "ca.pem"


def test_plain_settings_name_no_credentials():
    assert not [name for name in client_options(KafkaSettings(), start_timeout_seconds=1) if "sasl" in name]


@pytest.mark.parametrize("address", ["broker", "broker:", ":9092", "broker:kafka", "broker:99999"])
def test_an_address_without_host_or_port_is_refused(address):
    with pytest.raises(ConfigurationError, match="not host:port"):
        await_broker(KafkaSettings(bootstrap=address), 0.1)


def test_any_of_several_addresses_is_enough(monkeypatch):
    tried = []

    def connect(address, timeout):
        tried.append(address)
        if address[0] != "third":
            raise OSError("refused")
        return socket.socket()

    monkeypatch.setattr(socket, "create_connection", connect)
    await_broker(KafkaSettings(bootstrap="first:1,second:2,third:3"), 0.1)
    assert tried == [("first", 1), ("second", 2), ("third", 3)]
