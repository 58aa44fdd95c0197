"""A worker in memory: its parts are fakes, and its clock stands until it is moved."""

from prometheus_client import CollectorRegistry

from model_store.timeline import Timeline
from schemas.settings import BatchingSettings, LimitSettings, Settings, TopicSettings, WorkerSettings
from stream_workers.assembly import lane_limits
from stream_workers.batching.batcher import Batcher
from stream_workers.batching.deadlines import DeadlineWatch
from stream_workers.batching.failure_policy import Breaker
from stream_workers.batching.intake import Intake
from stream_workers.batching.intake_budget import IntakeBudget
from stream_workers.batching.live_streams import LiveStreams
from stream_workers.batching.offset_ledger import OffsetLedger
from stream_workers.batching.service_time import ServiceTime
from stream_workers.batching.version_stamps import VersionStamps
from stream_workers.batching.waiting import FixedWait
from stream_workers.metrics import WorkerMetrics
from stream_workers.parts import WorkerParts
from stream_workers.rebalancing import PartitionLifecycle
from stream_workers.record_versions import Attempt, RecordVersions
from stream_workers.worker import Worker
from tests.fakes.fake_group_member import FakeGroupMember
from tests.fakes.fake_model_pool import VERSION, FakeModelPool
from tests.fakes.fake_settlement import FakeSettlement
from tests.fakes.fake_timeline_source import FakeCutSource, FakeTimelineSource
from tests.unit.stream_workers.builders import request

P0, P1 = ("requests", 0), ("requests", 1)


def make_settings(max_batch_size: int, topics: TopicSettings) -> Settings:
    return Settings(
        topics=topics,
        worker=WorkerSettings(queue_bytes=1 << 20),
        limits=LimitSettings(payload_bytes=1 << 10),
        batching=BatchingSettings(max_batch_size=max_batch_size, max_wait_ms=10),
    )


class Rig:
    """A worker whose world is in memory and whose clock stands until it is moved."""

    def __init__(
        self,
        *,
        max_batch_size: int = 4,
        queue_bytes: int = 1 << 20,
        at_least_once: bool = False,
        overload: str = "queue",
        topics: TopicSettings | None = None,
        timeline: Timeline | None = None,
        cuts: FakeCutSource | None = None,
    ) -> None:
        """With a `timeline` the versions of records follow it; without, there is one fixed version."""
        self.now = 100.0
        self.member, self.settlement, self.pool = FakeGroupMember(), FakeSettlement(), FakeModelPool()
        settings = make_settings(max_batch_size, topics or TopicSettings())
        wait = FixedWait(0.01)
        self.source, self.cuts = FakeTimelineSource(), cuts or FakeCutSource()
        if timeline is not None:
            self.source.look = lambda: Attempt(int(self.now * 1000), self.now)
            self.source.publish(timeline)
        ledger, metrics = OffsetLedger(), WorkerMetrics(CollectorRegistry())
        batcher = Batcher(lane_limits(settings), wait, settings.batching.lowest_share)
        self.parts = WorkerParts(
            settings=settings,
            member=self.member,
            settlement=self.settlement,
            pool=self.pool,
            metrics=metrics,
            intake=Intake(settings.limits, settings.topics.priorities),
            batcher=batcher,
            wait=wait,
            ledger=ledger,
            versions=RecordVersions(
                stamps=VersionStamps("m", VERSION if timeline is None else None),
                source=self.source,
                cuts=self.cuts,
                ledger=ledger,
                batcher=batcher,
                metrics=metrics.versions,
                model="m",
                can_start=self.pool.has_instances,
                clock=lambda: self.now,
                wall_clock=lambda: self.now,
            ),
            deadlines=DeadlineWatch(),
            breaker=Breaker(),
            budget=IntakeBudget(queue_bytes),
            service_time=ServiceTime(),
            live_streams=LiveStreams() if overload == "drop_oldest" else None,
            clock=self.clock,
            wall_clock=lambda: self.now,
            report=lambda *_: None,
            batch_span=lambda *_: (3, 5),
            listener=lambda worker: PartitionLifecycle(self.parts, worker),
            commits_offsets=at_least_once,
        )
        self.worker = Worker(self.parts)
        self.member.join(PartitionLifecycle(self.parts, self.worker))

    def clock(self) -> float:
        # Each look takes a little time, so that a bounded wait in the code under test ends.
        self.now += 0.0001
        return self.now

    def turn(self, times: int = 1, seconds: float = 0.02) -> None:
        for _ in range(times):
            self.worker.step()
            self.now += seconds

    def kinds(self) -> list[tuple[int, int, type]]:
        return [(i.request.partition, i.request.offset, type(i.outcome)) for i in self.settlement.outcomes]


def fill(rig: Rig, partition: int, count: int, **varied: object) -> None:
    log = rig.member.log.setdefault(("requests", partition), [])
    log += [request(n, partition, **varied) for n in range(len(log), len(log) + count)]  # type: ignore[arg-type]
