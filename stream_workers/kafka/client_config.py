"""Settings to librdkafka configuration, in one place for the member, the settlement and the start-up checks."""

import logging
from collections.abc import Callable
from typing import Any

import structlog
from confluent_kafka import KafkaError

from schemas.settings import KafkaSettings, Settings

Config = dict[str, Any]

FETCH_BYTES = 16 << 20
PREFETCH_BYTES = 32 << 20
PREFETCH_BYTES_WITH_LANES = 2 << 20
"""The client hands records on in the order of their arrival: an urgent one waits behind what was prefetched."""
PARTITION_FETCH_BYTES_WITH_LANES = 256 * 1024
RECEIVE_BYTES = 32 << 20
"""Largest reply and, for compressed batches, the largest unfolded size: the first of three heights of limits."""

_log = structlog.get_logger("kafka")


def connection_config(kafka: KafkaSettings, client_id: str) -> Config:
    """How to reach the brokers and be let in. Secrets stay inside the returned mapping and are never logged."""
    config: Config = {
        "bootstrap.servers": kafka.bootstrap,
        "client.id": client_id,
        "security.protocol": kafka.security_protocol.value,
        "socket.timeout.ms": kafka.request_timeout_ms,
        "reconnect.backoff.max.ms": 500,
        "socket.keepalive.enable": True,
        "log.connection.close": False,
        "logger": client_logger(),
        "topic.metadata.refresh.interval.ms": 30_000,
    }
    if kafka.security_protocol.startswith("SASL"):
        config["sasl.mechanism"] = kafka.sasl_mechanism
        config["sasl.username"] = kafka.sasl_username
        config["sasl.password"] = kafka.sasl_password.get_secret_value()
    if kafka.security_protocol.endswith("SSL"):
        files = {
            "ssl.ca.location": kafka.ssl_ca_file,
            "ssl.certificate.location": kafka.ssl_certificate_file,
            "ssl.key.location": kafka.ssl_key_file,
        }
        config |= {name: str(path) for name, path in files.items() if path is not None}
        if kafka.ssl_key_password.get_secret_value():
            config["ssl.key.password"] = kafka.ssl_key_password.get_secret_value()
    return config


def consumer_config(settings: Settings, identity: str, on_error: Callable[[KafkaError], None]) -> Config:
    """A static member of the classic protocol. Offsets are committed by the settlement only, and a missing or
    out-of-range offset is an event that we answer, never a silent jump.
    """
    worker = settings.worker
    has_lanes = len(settings.topics.lanes) > 1
    return connection_config(settings.kafka, identity) | {
        "group.id": worker.group,
        "group.instance.id": f"{worker.group}-{identity}",
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": worker.session_timeout_ms,
        "heartbeat.interval.ms": max(300, min(2000, worker.session_timeout_ms // 4)),
        "max.poll.interval.ms": worker.max_poll_interval_ms,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        # Off by default in this client: a byte that flipped on the broker's disk would be answered as if it were sent.
        "check.crcs": True,
        "allow.auto.create.topics": False,
        "fetch.max.bytes": FETCH_BYTES,
        "receive.message.max.bytes": RECEIVE_BYTES,
        "max.partition.fetch.bytes": PARTITION_FETCH_BYTES_WITH_LANES if has_lanes else 1 << 20,
        "queued.max.messages.kbytes": (PREFETCH_BYTES_WITH_LANES if has_lanes else PREFETCH_BYTES) >> 10,
        # What the client does for a whole second, by default, once its queue was full: the worker would run dry.
        "fetch.queue.backoff.ms": 10,
        "fetch.error.backoff.ms": 100,
        "statistics.interval.ms": 1000,
        "error_cb": on_error,
    }


def producer_config(settings: Settings, identity: str, on_error: Callable[[KafkaError], None]) -> Config:
    """An idempotent producer whose batches fit the result topics; with a transactional id for exactly-once."""
    largest = settings.limits.outcome_bytes
    return connection_config(settings.kafka, identity) | {
        "enable.idempotence": True,
        "acks": "all",
        # Larger requests cost the broker less; a tenth of the interval after which a commit flushes anyway.
        "linger.ms": min(10, settings.worker.commit_interval_ms // 10),
        "message.max.bytes": largest,
        "batch.size": min(largest, 512 * 1024),
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": 128 * 1024,
        # At the default of 100 ms, one in five offset commits waits that long for a marker that takes 5 ms; and a
        # busy broker's marker must not be waited for twice as long as it takes, since the pause doubles.
        "retry.backoff.ms": 5,
        "retry.backoff.max.ms": 20,
        "partitioner": "murmur2_random",
        "delivery.report.only.error": True,
        "error_cb": on_error,
    }


def client_logger(listen: Callable[[str], None] | None = None) -> logging.Logger:
    """Make a logger for one client: its lines go to our log at debug level, and to `listen` first."""

    class Relay(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            line = record.getMessage()
            if listen is not None:
                listen(line)
            _log.debug(line)

    logger = logging.Logger("librdkafka")  # noqa: LOG001 - one per client, so that each hears only its own lines
    logger.addHandler(Relay())
    return logger


def log_client_error(error: KafkaError) -> None:
    """Log what the client says of its connections; what must be acted upon arrives elsewhere as well."""
    _log.warning("kafka client", code=error.name(), message=error.str(), fatal=error.fatal())
