"""The composition root: the only place that knows every class of a member. Nothing is opened or started here."""

import time
from collections.abc import Callable, Mapping

from schemas.settings import Delivery, Settings, instances_per_member
from stream_workers.batching.adaptive_wait import AdaptiveWait
from stream_workers.batching.batcher import Batcher, BatchLimits
from stream_workers.batching.deadlines import DeadlineWatch
from stream_workers.batching.failure_policy import Breaker
from stream_workers.batching.intake_budget import IntakeBudget
from stream_workers.batching.offset_ledger import OffsetLedger
from stream_workers.batching.waiting import FixedWait, WaitPolicy
from stream_workers.batching.work import Batch
from stream_workers.kafka.cluster_check import ClusterFacts
from stream_workers.kafka.group_member import GroupMember
from stream_workers.kafka.outcome_encoding import OutcomeEncoder
from stream_workers.kafka.outcome_writers import IdempotentWriter, OutcomeWriter, TransactionalWriter
from stream_workers.kafka.settlement import Settlement
from stream_workers.metrics import WorkerMetrics, new_registry
from stream_workers.parts import WorkerParts
from stream_workers.pipeline.contract import ModelPool
from stream_workers.rebalancing import PartitionLifecycle
from stream_workers.worker import Worker


def build_parts(
    settings: Settings,
    slot: str,
    facts: ClusterFacts,
    pool: ModelPool,
    report: Callable[[WorkerParts, Mapping[int, Batch]], None],
) -> WorkerParts:
    """Put the parts of one member together. `slot` is its identity in the group and in transactions."""
    exactly_once = settings.worker.delivery is Delivery.EXACTLY_ONCE
    writer: OutcomeWriter = (TransactionalWriter if exactly_once else IdempotentWriter)(settings, slot)
    encoder = OutcomeEncoder(settings, slot, facts.partition_counts)
    batching = settings.batching
    wait = choose_wait(settings)
    parts = WorkerParts(
        settings=settings,
        member=GroupMember(settings, slot),
        settlement=Settlement(
            writer,
            encoder.encode,
            interval_seconds=settings.worker.commit_interval_ms / 1000,
            hold_seconds=settings.worker.transaction_timeout_ms / 2000,
        ),
        pool=pool,
        metrics=WorkerMetrics(new_registry()),
        batcher=Batcher(BatchLimits(batching.max_batch_size, batching.max_batch_bytes, 0.0), wait=wait),
        wait=wait,
        ledger=OffsetLedger(),
        deadlines=DeadlineWatch(),
        breaker=Breaker(),
        budget=IntakeBudget(settings.worker.queue_bytes),
        clock=time.monotonic,
        wall_clock=time.time,
        report=lambda in_flight: report(parts, in_flight),
        batch_span=lambda topic, partition, offset: _batch_span(settings, topic, partition, offset),
        listener=lambda worker: PartitionLifecycle(parts, worker),
        commits_offsets=not exactly_once,
    )
    parts.metrics.retirements.set_function(lambda: writer.retirements)
    parts.metrics.fenced.set_function(lambda: parts.ledger.fenced)
    parts.metrics.breaker.set_function(lambda: parts.breaker.is_open)
    return parts


def choose_wait(settings: Settings) -> WaitPolicy:
    """How long batches of one member wait: as the settings say, or as the load does."""
    batching = settings.batching
    if batching.max_wait_ms == "auto":
        return AdaptiveWait(instances_per_member(settings), batching.max_batch_size)
    return FixedWait(batching.max_wait_ms / 1000)


def _batch_span(settings: Settings, topic: str, partition: int, offset: int) -> tuple[int, int]:
    # Imported when it is needed, which is almost never: a member that replaces a killed one must be quick to start.
    from producers.batch_span import batch_span  # noqa: PLC0415 - see above

    return batch_span(settings.kafka, topic, partition, offset)


def build_worker(parts: WorkerParts) -> Worker:
    """Make the worker of these parts."""
    return Worker(parts)
