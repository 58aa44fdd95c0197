"""Settings of what a pipeline is connected to: Kafka, Redis and its topics. Part of :mod:`schemas.settings`."""

import enum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, StringConstraints, model_validator

from schemas.settings_group import SettingsGroup

TopicName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,249}$")]


class SecurityProtocol(enum.StrEnum):
    """How a client talks to the brokers."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class KafkaSettings(SettingsGroup):
    """Where Kafka is and how to be let in."""

    bootstrap: str = Field("127.0.0.1:9092", min_length=1)
    """Comma-separated host:port list."""
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    """How to talk to the brokers."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    """With a SASL protocol: how to prove who we are."""
    sasl_username: str = ""
    """With a SASL protocol: who we are."""
    sasl_password: SecretStr = SecretStr("")
    """With a SASL protocol: the password. Better given as a variable than in a file."""
    ssl_ca_file: Path | None = None
    """Certificates of the authorities that may vouch for the brokers; the system's when not given."""
    ssl_certificate_file: Path | None = None
    """Our certificate, where brokers ask for one."""
    ssl_key_file: Path | None = None
    """The key of our certificate."""
    ssl_key_password: SecretStr = SecretStr("")
    """The password of that key."""
    request_timeout_ms: int = Field(10_000, ge=1000, le=300_000)
    """How long one request to a broker may take."""

    @model_validator(mode="after")
    def _complete_sasl(self) -> "KafkaSettings":
        if self.security_protocol.startswith("SASL") and not self.sasl_username:
            raise ValueError("sasl_username is needed with a SASL security_protocol")
        return self


class RedisSettings(SettingsGroup):
    """The control plane: the active-version timeline lives here. An empty url switches it off."""

    url: SecretStr = SecretStr("")
    """redis://[user:password@]host:port/db or rediss:// for TLS. A secret, since it may carry a password."""
    prefix: str = Field("headrace", pattern=r"^[a-z0-9_-]{1,40}$")
    """Every key in Redis begins with it."""
    timeout_seconds: float = Field(2.0, gt=0, le=60)
    """How long one call to Redis may take."""
    poll_seconds: float = Field(0.5, ge=0.1, le=1.0)
    """How often the pointer is read. Pushes are hints; this read decides, and nothing is taken in 1.5 s after it."""


class TopicSettings(SettingsGroup):
    """The topics of one pipeline."""

    requests: tuple[TopicName, ...] = Field(("headrace.requests",), min_length=1)
    """Where requests are read."""
    results: TopicName = "headrace.results"
    """Where answers are written."""
    dead_letters: TopicName = "headrace.dead-letters"
    """Where refused requests are written."""
    control: TopicName = "headrace.control"
    """Where the cuts of switches are recorded; pipelines that share it and a request topic share their cuts."""
    shadow: TopicName = "headrace.shadow"
    """Where answers of a shadow version go, each beside the active one; needed while a version is shadowed."""
    priorities: dict[TopicName, Annotated[int, Field(ge=0, le=9)]] = Field(default_factory=dict)
    """Priority of request topics, 0 the highest. Topics of one priority are one lane; one not named here has 0."""

    @property
    def lanes(self) -> tuple[int, ...]:
        """The priorities in use, most urgent first."""
        return tuple(sorted({self.priorities.get(topic, 0) for topic in self.requests}))

    @property
    def least_urgent(self) -> str:
        """Where bulk work goes: the topic of the lowest priority, the last of several."""
        return max(reversed(self.requests), key=lambda topic: self.priorities.get(topic, 0))

    @model_validator(mode="after")
    def _known_priorities(self) -> "TopicSettings":
        unknown = sorted(set(self.priorities) - set(self.requests))
        if unknown:
            raise ValueError(f"priorities names {unknown[0]}, which is not one of requests: {', '.join(self.requests)}")
        if self.lanes[0] != 0:
            raise ValueError(f"priorities: the most urgent topic has {self.lanes[0]}; the highest priority in use is 0")
        return self

    @model_validator(mode="after")
    def _no_loop(self) -> "TopicSettings":
        outputs = {self.results, self.dead_letters, self.control, self.shadow}
        if len(outputs) != 4 or outputs & set(self.requests) or len(set(self.requests)) != len(self.requests):
            raise ValueError(
                "requests, results, dead_letters, control and shadow must all be different topics: anything else is a"
                " loop"
            )
        return self
