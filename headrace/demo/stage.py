"""The stage of the demo: local stack, model versions, topics and a worker, brought up and taken down together."""

import http.client
import shutil
import socket
import sys
import time
from collections.abc import Callable, MutableMapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from pydantic import SecretStr

from headrace.demo.background_command import BackgroundCommand
from headrace.demo.process_table import ChildProcess, children_of
from headrace.local_stack.service_process import ServiceProcess
from headrace.local_stack.stack import LocalStack
from model_store.live_versions import LiveVersions
from model_store.store import ModelStore
from producers.topics import create_topics
from schemas.errors import ModelStoreError, UnavailableError
from schemas.settings import ENV_PREFIX, KafkaSettings, RedisSettings, TopicSettings

MODEL = "imagenet"
VERSIONS = ("lite0", "lite1", "lite2")
PARTITIONS = 8
MEMBERS = 2
MAX_BATCH_SIZE = 8
TOPICS = TopicSettings(
    requests=("demo.requests",),
    results="demo.results",
    dead_letters="demo.dead-letters",
    control="demo.control",
    shadow="demo.shadow",
)
MEMBER_MODULE = "stream_workers.member"
MEMBER_NAME = "hr-"
"""How a member that holds a slot is named; the worker's spare, which holds none, is not."""
MODEL_MODULE = "stream_workers.pipeline"
_PUBLISH_LIMIT_SECONDS = 180.0
_READY_LIMIT_SECONDS = 120.0
_STOP_LIMIT_SECONDS = 25.0


@dataclass(frozen=True)
class StagePaths:
    """Where the demo keeps things: `home` is reused by the next run, `worker_log` belongs to this one."""

    home: Path
    worker_log: Path

    @property
    def stack(self) -> Path:
        """Kafka's and Valkey's data; emptied at each start."""
        return self.home / "stack"

    @property
    def models(self) -> Path:
        """The published model versions: immutable, so they are kept."""
        return self.home / "models"

    @property
    def configuration(self) -> Path:
        """The settings of the worker and of every other command on this stage."""
        return self.home / "headrace.yaml"


class Stage:
    """Everything that has to run before a frame can be answered. Leaving it ends all of its processes.

    It brings its own settings: `forget_settings` must be called first, so that `HEADRACE_*` variables of the caller
    cannot point it at another Kafka.
    """

    def __init__(self, paths: StagePaths, announce: Callable[[str], None], *, keep_data: bool) -> None:
        self.paths = paths
        self._keep_data = keep_data
        self._announce = announce
        self._stack = LocalStack(paths.stack, fresh=True, on_progress=announce)
        self._worker = ServiceProcess("headrace worker", paths.worker_log)
        command = [sys.executable, "-m", "headrace", "models", "publish-demo"]
        environment = {f"{ENV_PREFIX}STORE__ROOT": str(paths.models)}
        self._publishing = BackgroundCommand("headrace models publish-demo", command, environment)
        self._exit = ExitStack()
        self._health_port = 0

    def __enter__(self) -> Self:
        """Bring everything up. Raises UnavailableError or ConfigurationError; nothing is left running then."""
        with ExitStack() as undo:
            self._begin_publishing(undo)
            self._stack.start()
            undo.callback(self._close_stack)
            self._write_configuration()
            self._publishing.wait(_PUBLISH_LIMIT_SECONDS)
            self._activate_first_version()
            create_topics(self.kafka, TOPICS, partitions=PARTITIONS)
            self._announce(f"starting a worker with {MEMBERS} members, each with one single-threaded model instance")
            undo.callback(self.stop_worker)
            self._worker.start(self._worker_command(), self._is_ready, _READY_LIMIT_SECONDS)
            self._exit = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    @property
    def kafka(self) -> KafkaSettings:
        """How to reach the stage's Kafka."""
        return KafkaSettings(bootstrap=self._stack.bootstrap)

    @property
    def supervisor_pid(self) -> int:
        """The process id of `headrace worker`."""
        return self._worker.pid

    def members(self) -> list[ChildProcess]:
        """List the living group members."""
        children = children_of(self._worker.pid)
        return [child for child in children if MEMBER_MODULE in child.command and child.name.startswith(MEMBER_NAME)]

    def models(self) -> list[ChildProcess]:
        """List the living model processes."""
        return [child for child in children_of(self._worker.pid) if MODEL_MODULE in child.command]

    def check(self) -> None:
        """Raise UnavailableError, with its last words, when something ended that should not have."""
        dead = self._stack.find_dead_server()
        if dead:
            raise UnavailableError(dead)
        if not self._worker.is_alive():
            raise UnavailableError(f"headrace worker ended unexpectedly: {self._worker.read_output()}")

    def stop_worker(self) -> None:
        """Stop the worker as an operator would; a second call does nothing."""
        self._worker.stop(_STOP_LIMIT_SECONDS)

    def _close_stack(self) -> None:
        self._stack.stop()
        if not self._keep_data:
            shutil.rmtree(self.paths.stack, ignore_errors=True)

    def _write_configuration(self) -> None:
        self._health_port = find_free_port()
        values = stage_settings(self._stack.environment(), self.paths, self._health_port)
        self.paths.configuration.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")

    def _begin_publishing(self, undo: ExitStack) -> None:
        """Publish what an earlier run has not left. It needs neither server, so it runs while they start."""
        if not has_versions(self.paths.models):
            self._announce("publishing three versions of EfficientNet-Lite (kept for the next run)")
            undo.callback(self._publishing.kill)
            self._publishing.start()

    def _activate_first_version(self) -> None:
        versions = LiveVersions(RedisSettings(url=SecretStr(self._stack.redis_url)))
        try:
            versions.activate(MODEL, VERSIONS[0], expected_epoch=0, now_ms=int(time.time() * 1000))
        finally:
            versions.close()

    def _worker_command(self) -> list[str]:
        return [sys.executable, "-m", "headrace", "worker", "--config", str(self.paths.configuration)]

    def _is_ready(self) -> bool:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self._health_port, timeout=2)
            with closing(connection):
                connection.request("GET", "/ready")
                return connection.getresponse().status == http.HTTPStatus.OK and len(self.members()) == MEMBERS
        except (OSError, http.client.HTTPException):
            return False


def has_versions(root: Path) -> bool:
    """Tell whether every version of the demo's model lies below a store's root."""
    store = ModelStore(root)
    try:
        return all(store.resolve(MODEL, version) for version in VERSIONS)
    except ModelStoreError:
        return False


def stage_settings(addresses: dict[str, str], paths: StagePaths, health_port: int) -> dict[str, Any]:
    """Return the settings of the stage as the YAML file holds them; `addresses` are the stack's variables."""
    return {
        "kafka": {"bootstrap": addresses[f"{ENV_PREFIX}KAFKA__BOOTSTRAP"]},
        "redis": {"url": addresses[f"{ENV_PREFIX}REDIS__URL"]},
        "topics": TOPICS.model_dump(mode="json"),
        "store": {"root": str(paths.models), "cache_dir": str(paths.home / "cache")},
        "model": {"name": MODEL, "instances": 1, "threads": 1},
        "batching": {"max_batch_size": MAX_BATCH_SIZE},
        "worker": {"group": "demo", "members": MEMBERS, "state_dir": str(paths.stack / "state")},
        "health": {"port": health_port},
        "log": {"format": "console"},
    }


def forget_settings(environ: MutableMapping[str, str]) -> None:
    """Take every `HEADRACE_*` variable out of an environment, and so out of the children's that inherit it."""
    for name in [name for name in environ if name.upper().startswith(ENV_PREFIX)]:
        del environ[name]


def find_free_port() -> int:
    """Find a port of the loopback interface that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
