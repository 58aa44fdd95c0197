"""Switches under load: make them, and look in Kafka whether each record met the version that the timeline says."""

import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from pydantic import SecretStr

from headrace.cli.decided_versions import make_decisions
from model_store.live_versions import LiveVersions
from model_store.live_workers import LiveWorkers
from model_store.record_versions import PartitionVersions
from model_store.timeline import SwitchMode, Timeline
from model_store.worker_reports import Candidate, WorkerReport
from producers.audit.version_facts import Decisions
from producers.outcomes import decode_outcome
from producers.record_reader import RecordReader
from producers.recorded_cuts import collect_cuts
from schemas.settings import RedisSettings, TopicSettings
from schemas.version_cuts import VersionCut, decode_cut
from tests.faults.harness import MODEL, FaultRun
from tests.faults.worker_process import wait_until

LEAD_MS = 2000
Met = dict[tuple[str, int, int], tuple[str, int]]
"""Version and epoch by topic, partition and offset of the request."""


class Switches:
    """The control plane of one run, as a command would use it."""

    def __init__(self, run: FaultRun, model: str = MODEL) -> None:
        self.run = run
        self._model = model
        prefix = run.group.lower()[:40]
        self.redis = RedisSettings(url=SecretStr(run.rig.stack.redis_url), prefix=prefix, timeout_seconds=2)
        self._versions, self._workers = LiveVersions(self.redis), LiveWorkers(self.redis)

    def settings(self, **groups: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """What a worker needs to follow the pointer."""
        redis = {"url": self.run.rig.stack.redis_url, "prefix": self.redis.prefix}
        return {**groups, "redis": redis, "model": {"version": None, **groups.get("model", {})}}

    def read(self) -> Timeline:
        """The timeline as it stands."""
        return self._versions.read(self._model) or Timeline()

    def decisions(self, timeline: Timeline | None = None) -> Decisions:
        """What was decided and recorded, as an audit needs it: `run.finish(load, decisions=switches.decisions)`."""
        return make_decisions(timeline or self.read(), collect_cuts(read_cuts(self.run), self._model))

    def reports(self) -> tuple[WorkerReport, ...]:
        """What the members say."""
        return self._workers.read_workers(self._model).reports

    def activate(self, version: str) -> int:
        """Switch from now on; returns the epoch."""
        now_ms = int(time.time() * 1000)
        return self._move(lambda present: present.with_activation(version, present.epoch, now_ms))

    def arm(self, version: str, lead_ms: int = LEAD_MS) -> int:
        """Switch exactly, so long from now; returns the epoch."""
        now_ms = int(time.time() * 1000)
        return self._move(
            lambda present: present.with_activation(version, present.epoch, now_ms, effective_from_ms=now_ms + lead_ms)
        )

    def prepare(self, *versions: str, members: int = 1, seconds: float = 60.0) -> None:
        """Have every member load versions, and wait until all say that they are ready."""
        candidate = Candidate(uuid.uuid4().hex[:16], versions, "test", int(time.time() * 1000))
        self._workers.propose_candidate(self._model, candidate)

        def all_ready() -> bool:
            self._workers.renew_candidate(self._model, candidate)
            reports = self.reports()
            return len(reports) >= members and all(report.ready == candidate.id for report in reports)

        wait_until(all_ready, seconds, f"{', '.join(versions)} ready at {members} members")

    def wait_until_adopted(self, epoch: int, members: int, seconds: float = 5.0) -> None:
        """Wait until so many members act on a decision."""

        def adopted() -> bool:
            return sum(report.epoch >= epoch for report in self.reports()) >= members

        wait_until(adopted, seconds, f"epoch {epoch} at {members} members")

    def _move(self, change: Callable[[Timeline], Timeline]) -> int:
        return self._versions.move(self._model, change).epoch


def read_cuts(run: FaultRun) -> list[VersionCut]:
    """Every cut on the control topic that a read_committed reader sees, in order."""
    with RecordReader(run.rig.direct, [run.topics.control], start="earliest") as reader:
        return [decode_cut(r.key, r.value) for r in reader.read_until(reader.end_offsets(), timeout_seconds=30)]


def read_met(run: FaultRun, topics: TopicSettings | None = None) -> Met:
    """What every request met, by its outcome. Fails for a request with two outcomes."""
    named = topics or run.topics
    met: Met = {}
    with RecordReader(run.rig.direct, [named.results, named.dead_letters], start="earliest") as reader:
        for record in reader.read_until(reader.end_offsets(), timeout_seconds=30):
            outcome = decode_outcome(record, dead_letters_topic=named.dead_letters)
            source = (outcome.source.topic, outcome.source.partition, outcome.source.offset)
            assert source not in met, f"{source} has two outcomes"
            assert outcome.precision == "fp32", f"{source}: precision {outcome.precision!r}"
            assert outcome.source_timestamp_ms > 0, f"{source}: no append time"
            met[source] = (outcome.version, outcome.epoch)
    return met


def expect_met(run: FaultRun, timeline: Timeline) -> Met:
    """What every request is to meet: by its append time, its offset and the recorded cuts, and nothing else."""
    cuts: dict[tuple[str, int], dict[int, int]] = defaultdict(dict)
    for cut in read_cuts(run):
        known = cuts[cut.topic, cut.partition].setdefault(cut.epoch, cut.offset)
        assert known == cut.offset, f"{cut} is cut twice, first at {known}"
    places: dict[tuple[str, int], PartitionVersions] = {}
    expected: Met = {}
    with RecordReader(run.rig.direct, list(run.topics.requests), start="earliest") as reader:
        for record in reader.read_until(reader.end_offsets(), timeout_seconds=30):
            where = record.position
            key = (where.topic, where.partition)
            place = places.setdefault(key, PartitionVersions(cuts[key]))
            entry = place.meet(timeline, where.offset, record.timestamp_ms)
            assert entry is not None
            expected[*key, where.offset] = (entry.pick(record.key or b""), entry.epoch)
    return expected


def replay(run: FaultRun, partitions: int, drain_seconds: float = 60.0, **groups: dict[str, Any]) -> TopicSettings:
    """Have a new group answer everything from the start, into topics of its own; returns those. `groups` are settings.

    The workers that answered before are to be ended first where their cores are needed.
    """
    name = f"{run.group}-again"
    topics = run.topics.model_copy(update={"results": name, "dead_letters": f"{name}-dead"})
    run.rig.create_topics(topics.results, topics.dead_letters, partitions=partitions)
    worker = {**groups.pop("worker", {}), "group": name}
    run.add_worker("again", members=2, **groups, worker=worker, topics=topics.model_dump(mode="json"))
    run.wait_until_drained(drain_seconds, group=name)
    return topics


def count_cut_partitions(met: Met, timeline: Timeline) -> dict[int, int]:
    """By epoch: in how many partitions a record met it. To see that a switch met anything at all."""
    seen: dict[int, set[int]] = {entry.epoch: set() for entry in timeline.entries}
    for (_, partition, _), (_, epoch) in met.items():
        seen[epoch].add(partition)
    return {epoch: len(partitions) for epoch, partitions in seen.items()}


def exact_epochs(timeline: Timeline) -> set[int]:
    """The epochs of switches at an instant."""
    return {entry.epoch for entry in timeline.entries if entry.mode is SwitchMode.EXACT}
