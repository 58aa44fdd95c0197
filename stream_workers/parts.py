"""What a worker is made of. Handed to it by the composition root; nothing here opens or starts anything."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from schemas.records import Timings
from schemas.settings import Settings
from stream_workers.batching.batcher import Batcher
from stream_workers.batching.deadlines import DeadlineWatch
from stream_workers.batching.failure_policy import Breaker
from stream_workers.batching.intake import Intake
from stream_workers.batching.intake_budget import IntakeBudget
from stream_workers.batching.live_streams import LiveStreams
from stream_workers.batching.offset_ledger import Frontier, OffsetLedger, Settled
from stream_workers.batching.service_time import ServiceTime
from stream_workers.batching.waiting import WaitPolicy
from stream_workers.batching.work import PartitionKey, ServedVersion, WorkItem, unbatched_timings
from stream_workers.caching.recall import NoAnswerCache
from stream_workers.kafka.group_member import GroupSnapshot, Polled, RebalanceListener
from stream_workers.kafka.settlement import Commit
from stream_workers.metrics import WorkerMetrics
from stream_workers.pipeline.contract import ModelPool
from stream_workers.record_versions import RecordVersions
from stream_workers.shadowing.desk import NoShadows, ShadowDesk


class MemberDoor(Protocol):
    """The worker's view of the consumer group; see :class:`stream_workers.kafka.group_member.GroupMember`."""

    def join(self, listener: RebalanceListener) -> None:
        """Subscribe."""

    @property
    def is_member(self) -> bool:
        """True while it has an identity in the group."""

    @property
    def is_connected(self) -> bool:
        """False while no broker is to be reached."""

    def poll(self, max_records: int, wait_seconds: float) -> Polled:
        """Fetch what is there."""

    def snapshot(self) -> GroupSnapshot | None:
        """Take this member's identity."""

    def pause(self, partitions: Sequence[PartitionKey]) -> None:
        """Stop fetching."""

    def resume(self, partitions: Sequence[PartitionKey]) -> None:
        """Fetch again."""

    def seek(self, partition: PartitionKey, offset: int) -> None:
        """Go on at an offset."""

    def commit(self, frontiers: Mapping[PartitionKey, Frontier], *, wait: bool) -> None:
        """Commit offsets without a transaction."""

    def leave(self) -> None:
        """Close."""


class SettlementDoor(Protocol):
    """The worker's view of the settlement; see :class:`stream_workers.kafka.settlement.Settlement`."""

    def start(self) -> None:
        """Open the writer and start the thread."""

    def offer(self, settled: Settled, *, soon: bool = False) -> None:
        """Hand over outcomes."""

    def own(self, assignments: Mapping[PartitionKey, int]) -> None:
        """Say what is owned."""

    def identify(self, snapshot: GroupSnapshot | None) -> None:
        """Say who this member is."""

    def flush(self, timeout_seconds: float) -> bool:
        """Commit everything offered."""

    def take_commits(self) -> list[Commit]:
        """Return new commits."""

    def check(self) -> None:
        """Raise what ended it."""

    def stop(self, timeout_seconds: float) -> bool:
        """Commit what is left and close."""


class LetsGo(Protocol):
    """Who finishes the work of partitions that are about to go, and settles the cuts of new ones: the worker."""

    def offer(self, settled: Settled) -> None:
        """Hand what is settled on, if anything is."""

    def let_go(self, partitions: Sequence[PartitionKey], give_up_at: float) -> None:
        """Finish and commit what is in flight for them."""


@dataclass(slots=True)
class WorkerParts:
    """The doors, deciders and clocks of one worker."""

    settings: Settings
    member: MemberDoor
    settlement: SettlementDoor
    pool: ModelPool
    metrics: WorkerMetrics
    intake: Intake
    batcher: Batcher
    wait: WaitPolicy
    """The batcher's; it is told of arrivals, of batches in hand and of service times."""
    ledger: OffsetLedger
    versions: RecordVersions
    deadlines: DeadlineWatch
    breaker: Breaker
    budget: IntakeBudget
    service_time: ServiceTime
    live_streams: LiveStreams | None
    """None while old records are never dropped for newer ones."""
    clock: Callable[[], float]
    wall_clock: Callable[[], float]
    report: Callable[[int, Collection[ServedVersion]], None]
    """Told how many batches are in flight and which versions records in hand are pinned to."""
    batch_span: Callable[[str, int, int], tuple[int, int]]
    """(topic, partition, offset) to the first and last offset of the batch there."""
    listener: Callable[[LetsGo], RebalanceListener]
    commits_offsets: bool
    """True at least-once: offsets go through the member after their outcomes are acknowledged."""
    cache: NoAnswerCache = field(default_factory=NoAnswerCache)
    """Answers that were given before; off unless `cache.enabled`."""
    shadow: ShadowDesk | NoShadows = field(default_factory=NoShadows)
    """Runs copies of what was answered on a version that answers nobody."""
    assignments: dict[PartitionKey, int] = field(default_factory=dict)

    def owns(self, item: WorkItem) -> bool:
        """True while the record's partition is still ours under the assignment that it came with."""
        request = item.request
        return self.assignments.get((request.topic, request.partition)) == item.assignment

    @staticmethod
    def timings(item: WorkItem, now: float) -> Timings:
        """The timings of a record that never entered a batch."""
        return unbatched_timings(item, now)
