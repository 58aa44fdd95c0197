"""What the local broker is told: its server properties and its log configuration, as plain text."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.local_stack.ports import LOOPBACK
from schemas.errors import ConfigurationError

MAIN_LISTENER = "PLAINTEXT"
CONTROLLER_LISTENER = "CONTROLLER"
MIB = 1 << 20
MAX_LOG_FILE = "10 MB"


@dataclass(frozen=True)
class BrokerConfig:
    """Everything that one local broker is made of."""

    data_dir: Path
    """Holds `kafka/` (its data) and `logs/`."""
    port: int
    controller_port: int
    listener_ports: Mapping[str, int] = field(default_factory=dict)
    """Where each additional listener binds."""
    advertised_ports: Mapping[str, int] = field(default_factory=dict)
    """Which port each additional listener tells its clients to use."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Server properties that win over ours, except for the ones that tie the broker to this machine."""
    heap_mb: int = 512

    @property
    def kafka_dir(self) -> Path:
        """Where the broker keeps its records."""
        return self.data_dir / "kafka"

    @property
    def properties_path(self) -> Path:
        """Where its server properties are written."""
        return self.data_dir / "server.properties"

    @property
    def log_config_path(self) -> Path:
        """Where its log configuration is written."""
        return self.data_dir / "log4j2.yaml"

    @property
    def log_path(self) -> Path:
        """The broker's own log, bounded in size."""
        return self.data_dir / "logs" / "kafka.log"


# For one broker on one machine that should start quickly, stay small, and notice dead clients soon.
DEFAULTS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "log.retention.hours": "168",
    "log.retention.check.interval.ms": "60000",
    "log.segment.bytes": str(128 * MIB),
    "log.cleaner.dedupe.buffer.size": str(16 * MIB),
    "log.cleaner.io.buffer.size": str(MIB // 4),
    "num.network.threads": "2",
    "num.io.threads": "4",
    "num.recovery.threads.per.data.dir": "2",
    "background.threads": "2",
    # A broker that comes back after a crash is refused until the session of its former life has ended.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "400",
}


def server_properties(config: BrokerConfig) -> dict[str, str]:
    """All server properties of the broker.

    :raises ConfigurationError: an option would take the broker off the loopback interface or out of its data directory.
    """
    if "," in str(config.kafka_dir):
        raise ConfigurationError(f"data directory {config.data_dir} has a comma in its path, which Kafka cannot take")
    fixed = _fixed_properties(config)
    clashes = sorted(set(fixed) & set(config.options))
    if clashes:
        raise ConfigurationError(f"broker options {', '.join(clashes)} are set by the local stack itself")
    return {**DEFAULTS, **config.options, **fixed}


def render_properties(properties: Mapping[str, str]) -> str:
    """The text of a Java properties file."""
    return "".join(f"{key}={_escape(value)}\n" for key, value in sorted(properties.items()))


def render_log_config(config: BrokerConfig) -> str:
    """A log4j2 configuration: warnings and the start-up story into one file that is rolled over once."""
    return f"""Configuration:
  status: error
  Appenders:
    RollingFile:
      name: file
      fileName: {json.dumps(str(config.log_path))}
      filePattern: {json.dumps(f"{config.log_path}.%i")}
      PatternLayout:
        pattern: "%d{{ISO8601}} %p %c{{1.}} %m%n"
      SizeBasedTriggeringPolicy:
        size: {MAX_LOG_FILE}
      DefaultRolloverStrategy:
        max: 1
  Loggers:
    Root:
      level: warn
      AppenderRef:
        ref: file
    Logger:
      - name: kafka.server.KafkaRaftServer
        level: info
      - name: org.apache.kafka.common.utils.AppInfoParser
        level: error
"""


def _fixed_properties(config: BrokerConfig) -> dict[str, str]:
    binds = {MAIN_LISTENER: config.port, **config.listener_ports}
    advertised = {MAIN_LISTENER: config.port, **config.listener_ports, **config.advertised_ports}
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{LOOPBACK}:{config.controller_port}",
        "controller.listener.names": CONTROLLER_LISTENER,
        "inter.broker.listener.name": MAIN_LISTENER,
        "listeners": _addresses({**binds, CONTROLLER_LISTENER: config.controller_port}),
        "advertised.listeners": _addresses(advertised),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in (*binds, CONTROLLER_LISTENER)),
        "log.dirs": str(config.kafka_dir),
    }


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in ports.items())


def _escape(value: str) -> str:
    # Java reads these files as Latin-1 and knows only UTF-16 escapes.
    units = value.replace("\\", "\\\\").replace("\n", "\\n").encode("utf-16-be")
    codes = [int.from_bytes(units[index : index + 2]) for index in range(0, len(units), 2)]
    return "".join(chr(code) if code < 128 else f"\\u{code:04x}" for code in codes)
