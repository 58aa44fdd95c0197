"""What the Kafka doors of this package share: client options out of settings, and client errors into our error tree.

Knows no client library: errors are told apart by the names in their class hierarchy.
"""

import logging
import socket
import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self

from schemas.errors import (
    ConfigurationError,
    PayloadTooLargeError,
    PipelineError,
    StartUpTimeoutError,
    UnavailableError,
    scrub,
)
from schemas.settings import KafkaSettings

_log = logging.getLogger(__name__)

_MISCONFIGURED = frozenset(
    {
        "AuthorizationError",
        "ClusterAuthorizationFailedError",
        "IllegalArgumentError",
        "IllegalSaslStateError",
        "InvalidConfigurationError",
        "InvalidPartitionsError",
        "InvalidReplicationAssignmentError",
        "InvalidReplicationFactorError",
        "InvalidRequiredAcksError",
        "InvalidTimestampError",
        "InvalidTopicError",
        "KafkaConfigurationError",
        "PolicyViolationError",
        "SaslAuthenticationFailedError",
        "SecurityDisabledError",
        "TopicDeletionDisabledError",
        "UnacceptableCredentialError",
        "UnknownTopicOrPartitionError",
        "UnrecognizedBrokerVersion",
        "UnsupportedCodecError",
        "UnsupportedForMessageFormatError",
        "UnsupportedSaslMechanismError",
        "UnsupportedVersionError",
    }
)
_RETRY_SECONDS = 0.2
_PATIENCE_SECONDS = 2.0
"""How long nothing is said about a Kafka that does not answer."""
_TOO_LARGE = frozenset({"MessageSizeTooLargeError", "RecordListTooLargeError"})


def client_options(kafka: KafkaSettings, *, start_timeout_seconds: float) -> dict[str, Any]:
    """Spell the settings as options that the client's producer, consumer and admin all take."""
    options: dict[str, Any] = {
        "bootstrap_servers": [part.strip() for part in kafka.bootstrap.split(",") if part.strip()],
        "bootstrap_timeout_ms": max(1, int(start_timeout_seconds * 1000)),
        "request_timeout_ms": kafka.request_timeout_ms,
        # The client's default of 30 s would turn a broker restart of 3 s into a pause of half a minute.
        "reconnect_backoff_max_ms": 500,
        "security_protocol": kafka.security_protocol.value,
    }
    if kafka.security_protocol.startswith("SASL"):
        options["sasl_mechanism"] = kafka.sasl_mechanism
        options["sasl_plain_username"] = kafka.sasl_username
        options["sasl_plain_password"] = kafka.sasl_password.get_secret_value()
    for name, path in (
        ("ssl_cafile", kafka.ssl_ca_file),
        ("ssl_certfile", kafka.ssl_certificate_file),
        ("ssl_keyfile", kafka.ssl_key_file),
    ):
        if path is not None:
            options[name] = str(path)
    if kafka.ssl_key_password.get_secret_value():
        options["ssl_password"] = kafka.ssl_key_password.get_secret_value()
    return options


def await_broker(kafka: KafkaSettings, timeout_seconds: float) -> None:
    """Return once any of the addresses takes a connection. Raises StartUpTimeoutError naming them otherwise.

    The client would retry by itself, but leaves the sockets of its failed tries open.
    """
    addresses = [_split_address(part.strip()) for part in kafka.bootstrap.split(",") if part.strip()]
    began = time.monotonic()
    deadline = began + timeout_seconds
    reason, said = "", False
    while True:
        for address in addresses:
            try:
                socket.create_connection(address, timeout=max(0.1, min(2.0, deadline - time.monotonic()))).close()
            except OSError as error:
                reason = f"{address[0]}: {error.strerror or error}"
                continue
            return
        if time.monotonic() + _RETRY_SECONDS > deadline:
            raise StartUpTimeoutError(
                f"Kafka at {kafka.bootstrap} did not answer within {timeout_seconds:g} s ({reason})"
            )
        if not said and time.monotonic() - began > _PATIENCE_SECONDS:
            said = True
            _log.warning("waiting for Kafka at %s, %g s at most (%s)", kafka.bootstrap, timeout_seconds, reason)
        time.sleep(_RETRY_SECONDS)


def _split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit() and int(port) <= 65_535):
        raise ConfigurationError(f"kafka.bootstrap: {address!r} is not host:port")
    return host.strip("[]"), int(port)


def translate(error: Exception, doing: str, *, otherwise: type[PipelineError] = UnavailableError) -> PipelineError:
    """Name a client error in our tree; total by construction.

    What an operator must change is a ConfigurationError, a broker's size limit a PayloadTooLargeError, what may pass by
    itself an UnavailableError, and all else `otherwise`.
    """
    names = {kind.__name__ for kind in type(error).__mro__}
    message = f"{doing}: {type(error).__name__}: {scrub(str(error), limit=300)}"
    if names & _MISCONFIGURED:
        return ConfigurationError(message)
    if names & _TOO_LARGE:
        return PayloadTooLargeError(message)
    return UnavailableError(message) if getattr(error, "retriable", False) else otherwise(message)


def translate_start(error: Exception, kafka: KafkaSettings, start_timeout_seconds: float) -> PipelineError:
    """Name an error met while connecting: the address and the limit are part of the message."""
    translated = translate(error, f"Kafka at {kafka.bootstrap}")
    if isinstance(translated, UnavailableError):
        return StartUpTimeoutError(f"Kafka at {kafka.bootstrap} did not answer within {start_timeout_seconds:g} s")
    return translated


class Connection(ABC):
    """Something that is opened by `start`, not by its constructor, and is a context manager."""

    @abstractmethod
    def start(self) -> Self:
        """Connect."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect; a second call does nothing."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
