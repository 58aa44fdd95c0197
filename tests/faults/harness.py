"""The rig of a fault test: topics, a model, a load with a ledger, a worker to hurt, a drain, an audit.

The usual run::

    with FaultRun(rig, unique, tmp_path) as run:
        run.start_worker(members=2)
        with run.load() as load:
            ... hurt run.worker ...
        run.finish(load).check()
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from producers.audit.audit import Audit, AuditOptions
from producers.audit.report import AuditReport
from producers.audit.version_facts import NOT_KNOWN, Decisions
from producers.audit.watching import Sighting, Watcher
from producers.audit_reader import KafkaAudit
from producers.kafka_publisher import Publisher
from producers.outcomes import decode_outcome
from producers.result_reader import RecordReader, ResultReader
from producers.topic_layout import LOG_APPEND_TIME, TopicPlan
from producers.topics import TopicAdmin
from schemas.records import JSON
from schemas.settings import KafkaSettings, TopicSettings
from tests.faults.conftest import Rig
from tests.faults.load import Load, LoadShape, numbers_row
from tests.faults.pauses import Answered, Pause, longest_pauses
from tests.faults.record_counts import count_records
from tests.faults.worker_process import WorkerProcess, wait_until

MODEL, VERSION = "mlp", "v1"
_TIMEOUTS = {"session_timeout_ms": 6000, "transaction_timeout_ms": 10_000, "start_timeout_seconds": 60}


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    report: AuditReport
    """Of everything that lies in the request topics, with a reader during."""
    acknowledged: AuditReport | None
    """Of what the broker acknowledged to the load: nothing of that may have vanished."""
    pauses: list[Pause]
    worker_log: str
    answered: list[Answered] = field(default_factory=list)
    """Every outcome under load, to look at a part of it."""

    def check(self) -> None:
        """Raise AssertionError with everything that was found, unless the audit is clean."""
        for report in (self.report, self.acknowledged):
            if report is not None and not report.clean:
                raise AssertionError(f"not clean: {report.to_json()}\n{self.worker_log}")

    @property
    def longest_pause_seconds(self) -> float:
        """The longest pause of any partition under load."""
        return max((pause.seconds for pause in self.pauses), default=0.0)

    def longest_pause_between(self, begin_seconds: float, end_seconds: float) -> float:
        """The longest pause of any partition within a part of the load, in epoch seconds."""
        pauses = longest_pauses(self.answered, begin_seconds, end_seconds)
        return max((pause.seconds for pause in pauses), default=0.0)


class WatchThread:
    """The reader during, in a thread with a connection of its own."""

    def __init__(self, kafka: KafkaSettings, topics: TopicSettings) -> None:
        self._kafka = kafka
        self._topics = topics
        self._over = threading.Event()
        self._sighting: Sighting | None = None
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def end(self) -> None:
        """Follow no longer."""
        self._over.set()
        self._thread.join(30)

    def result(self) -> Sighting:
        """End, and return what was seen. Raises RuntimeError when the reader died."""
        self.end()
        if self._sighting is None:
            raise RuntimeError("the reader during did not come to an end")
        return self._sighting

    def _watch(self) -> None:
        with KafkaAudit(self._kafka) as access:
            watcher = Watcher(access, (self._topics.results, self._topics.dead_letters))
            self._sighting = watcher.watch(self._over.is_set)


class FaultRun:
    """One run with topics, a group and a folder of its own. Leaving it ends the worker by force.

    The load and the audit go past the proxy; the worker goes through it when `proxied`.
    """

    def __init__(
        self, rig: Rig, name: str, folder: Path, *, partitions: int = 4, proxied: bool = True, urgent: bool = False
    ) -> None:
        """With `urgent` there is a second request topic, `topics.requests[1]`, whose records go first."""
        self.rig = rig
        self.folder = folder
        self.group = name
        requests = (f"{name}-requests", f"{name}-urgent") if urgent else (f"{name}-requests",)
        self.topics = TopicSettings(
            requests=requests,
            priorities={requests[0]: 1} if urgent else {},
            results=f"{name}-results",
            dead_letters=f"{name}-dead-letters",
            control=f"{name}-control",
            shadow=f"{name}-shadow",
        )
        self._kafka = rig.proxied if proxied else rig.direct
        self._partitions = partitions
        self._workers: list[WorkerProcess] = []
        self._watch = WatchThread(rig.direct, self.topics)
        self._loads = 0

    def __enter__(self) -> Self:
        self.rig.create_topics(self.topics.results, self.topics.dead_letters, partitions=self._partitions)
        stamped, compacted = {"message.timestamp.type": LOG_APPEND_TIME}, {"cleanup.policy": "compact"}
        with TopicAdmin(self.rig.direct) as admin:
            admin.create([TopicPlan(topic, self._partitions, 1, stamped) for topic in self.topics.requests])
            admin.create([TopicPlan(self.topics.control, 1, 1, compacted)])
        self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.end()
        for worker in self._workers:
            worker.stop()

    @property
    def worker(self) -> WorkerProcess:
        """The worker to hurt: the first one."""
        if not self._workers:
            raise RuntimeError("no worker is started")
        return self._workers[0]

    def settings(self, *, members: int = 1, **groups: dict[str, Any]) -> dict[str, Any]:
        """The settings of the worker; `groups` are added to what the harness needs, setting by setting."""
        base: dict[str, dict[str, Any]] = {
            "kafka": self._kafka.model_dump(mode="json", include={"bootstrap"}),
            "topics": self.topics.model_dump(mode="json"),
            "store": {"root": str(self.folder / "store"), "cache_dir": str(self.folder / "cache")},
            "model": {
                "name": MODEL,
                "version": VERSION,
                "classes": {MODEL: "examples.mlp:MlpClassifier"},
                "instances": 1,
            },
            "worker": {
                "group": self.group,
                "members": members,
                "state_dir": str(self.folder / "state"),
                **_TIMEOUTS,
            },
            "health": {"port": 0},
            "log": {"format": "json"},
        }
        return {name: {**base.get(name, {}), **groups.get(name, {})} for name in {**base, **groups}}

    def start_worker(
        self, *, members: int = 1, environment: dict[str, str] | None = None, **groups: dict[str, Any]
    ) -> WorkerProcess:
        """Publish the model when that is not done, start a worker, and wait until it has answered a probe."""
        worker = self.add_worker(members=members, environment=environment, **groups)
        self.wait_until_answering()
        return worker

    def add_worker(
        self,
        name: str = "worker",
        *,
        members: int = 1,
        environment: dict[str, str] | None = None,
        **groups: dict[str, Any],
    ) -> WorkerProcess:
        """Start a worker of this name and return at once. `start` it again after it has ended."""
        if groups.get("model", {}).get("name", MODEL) == MODEL:
            publish_example_model(self.folder / "store")
        groups = {**groups, "worker": {"name": name, **groups.get("worker", {})}}
        config = self.folder / f"{name}.yaml"
        config.write_text(yaml.safe_dump(self.settings(members=members, **groups)))
        worker = WorkerProcess(config, self.folder / f"{name}.log", environment=environment)
        self._workers.append(worker)
        worker.start()
        return worker

    def count_in_log(self, words: str) -> int:
        """How many lines of all workers' logs, so far, hold these words."""
        return sum(line.count(words) > 0 for worker in self._workers for line in worker.log.read_text().splitlines())

    def count_rebalances(self) -> int:
        """How often a member was given or lost partitions so far."""
        return sum(self.count_in_log(f'"partitions {event}"') for event in ("assigned", "revoked", "lost"))

    def aborted_outcomes(self) -> int:
        """Outcomes on disk that no read_committed reader sees: written, then aborted."""
        topics = (self.topics.results, self.topics.dead_letters)
        return sum(
            count_records(self.rig, topics, isolation) * sign
            for isolation, sign in (("read_uncommitted", 1), ("read_committed", -1))
        )

    def wait_until_answering(self, seconds: float = 90.0, payload: bytes = b"", content_type: str = JSON) -> None:
        """Wait until a request sent now, by default a row of numbers, has its outcome. Raises UnavailableError."""
        with (
            ResultReader(self.rig.direct, self.topics.results, self.topics.dead_letters) as reader,
            Publisher(self.rig.direct, self.topics.requests[0]) as publisher,
        ):
            request_id = publisher.publish(payload or numbers_row(0), content_type=content_type, key="probe")
            publisher.flush()
            reader.wait_for(request_id, seconds)

    def load(self, shape: LoadShape | None = None, *, topic: str = "") -> Load:
        """Make a load on the first request topic or another; start it by entering it."""
        self._loads += 1
        sent = self.folder / f"sent-{self._loads}.jsonl"
        return Load(self.rig.direct, topic or self.topics.requests[0], sent, shape)

    def wait_until_drained(self, seconds: float = 60.0, *, group: str = "") -> None:
        """Wait until a group, the run's or another, has committed the end of every request partition.

        Raises TimeoutError with the end of the log.
        """
        with TopicAdmin(self.rig.direct) as admin:

            def is_drained() -> bool:
                return all(part.lag == 0 for part in admin.lag(group or self.group, self.topics.requests))

            try:
                wait_until(is_drained, seconds, "drained")
            except TimeoutError as error:
                raise TimeoutError(f"{error}: {self._last_words()}") from None

    def finish(
        self,
        load: Load | None = None,
        *,
        drain_seconds: float = 60.0,
        decisions: Callable[[], Decisions] = lambda: NOT_KNOWN,
    ) -> Outcome:
        """Drain, stop the reader during, audit everything, and measure the pauses under `load`.

        `decisions` is asked once everything has its outcome; with it, every cut is held to what was decided.
        """
        self.wait_until_drained(drain_seconds)
        sighting = self._watch.result()
        with KafkaAudit(self.rig.direct) as access:
            report = Audit(access, self.topics, AuditOptions(group=self.group, decisions=decisions())).run(sighting)
            if load is None:
                return Outcome(report, None, [], self._last_words())
            acknowledged = Audit(access, self.topics, AuditOptions(sent_file=load.sent_file)).run()
        answered = self._answered()
        pauses = longest_pauses(answered, load.begin_seconds, load.end_seconds)
        return Outcome(report, acknowledged, pauses, self._last_words(), answered)

    def _answered(self) -> list[Answered]:
        with RecordReader(self.rig.direct, [self.topics.results, self.topics.dead_letters], start="earliest") as reader:
            found = []
            for record in reader.read_until(reader.end_offsets(), timeout_seconds=30):
                source = decode_outcome(record, dead_letters_topic=self.topics.dead_letters).source
                found.append(Answered(source.topic, source.partition, record.timestamp_ms / 1000))
        return found

    def _last_words(self) -> str:
        return "\n".join(worker.last_words() for worker in self._workers) or "(no worker)"


def publish_example_model(root: Path, version: str = VERSION, seed: int = 0) -> None:
    """Publish the example MLP; its answers can be computed offline from the same seed."""
    from examples.mlp import build_mlp  # noqa: PLC0415 - torch, only where a worker is really started
    from model_store.publishing import VersionDraft, publish_state  # noqa: PLC0415
    from model_store.store import ModelStore  # noqa: PLC0415
    from model_store.torch_loader import save_state  # noqa: PLC0415

    store = ModelStore(root)
    if not store.directory_of(MODEL, version).exists():
        publish_state(store, VersionDraft(MODEL, version, MODEL), build_mlp(seed).state_dict(), save_state)
