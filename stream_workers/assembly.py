"""The composition root: the only place that knows every class of a member. Nothing is opened or started here."""

import math
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Protocol

from schemas.settings import BatchingSettings, Delivery, Settings, instances_per_member
from stream_workers.answer_cache import AnswerCache
from stream_workers.answer_courier import AnswerCourier, AnswerDoor
from stream_workers.batching.adaptive_wait import make_wait
from stream_workers.batching.batcher import MOST_URGENT, Batcher
from stream_workers.batching.commit_pace import CommitPace
from stream_workers.batching.costs import Pricing, resolve_cost
from stream_workers.batching.deadlines import DeadlineWatch
from stream_workers.batching.failure_policy import Breaker
from stream_workers.batching.intake import Intake
from stream_workers.batching.intake_budget import IntakeBudget
from stream_workers.batching.lane import BatchLimits
from stream_workers.batching.live_streams import LiveStreams
from stream_workers.batching.offset_ledger import OffsetLedger
from stream_workers.batching.service_time import ServiceTime
from stream_workers.batching.version_stamps import VersionStamps
from stream_workers.batching.waiting import WaitPolicy
from stream_workers.batching.work import ServedVersion
from stream_workers.kafka.cluster_check import ClusterFacts
from stream_workers.kafka.cut_reader import CutReader
from stream_workers.kafka.group_member import GroupMember
from stream_workers.kafka.outcome_encoding import OutcomeEncoder
from stream_workers.kafka.outcome_writers import IdempotentWriter, OutcomeWriter, TransactionalWriter
from stream_workers.kafka.settlement import Settlement
from stream_workers.kafka.shadow_writer import ShadowWriter
from stream_workers.metrics import CacheMetrics, ShadowMetrics, WorkerMetrics, new_registry
from stream_workers.parts import WorkerParts
from stream_workers.pipeline.contract import MemberPool, ModelPool
from stream_workers.rebalancing import PartitionLifecycle
from stream_workers.record_versions import NoCuts, NoTimeline, RecordVersions, TimelineSource
from stream_workers.shadowing.comparison import ComparisonEncoder
from stream_workers.shadowing.courier import ShadowCourier
from stream_workers.shadowing.desk import ShadowDesk, ShadowSource
from stream_workers.worker import Worker


class DecisionSource(TimelineSource, ShadowSource, Protocol):
    """See :class:`stream_workers.version_following.VersionFollower`."""


def build_parts(
    settings: Settings,
    slot: str,
    facts: ClusterFacts,
    pool: MemberPool,
    report: Callable[[WorkerParts, int, Collection[ServedVersion]], None],
    source: DecisionSource | None,
) -> WorkerParts:
    """Put the parts of one member together. `slot` is its identity in the group and in transactions.

    `source` is None while the version is fixed by the settings.
    """
    exactly_once = settings.worker.delivery is Delivery.EXACTLY_ONCE
    writer: OutcomeWriter = (TransactionalWriter if exactly_once else IdempotentWriter)(settings, slot)
    batching, wait = settings.batching, choose_wait(settings)
    batcher, ledger = Batcher(lane_limits(settings), wait, batching.lowest_share), OffsetLedger()
    metrics = WorkerMetrics(new_registry())
    cuts = NoCuts() if source is None else CutReader(settings, slot, on_refused=metrics.versions.refused_cuts.inc)
    parts = WorkerParts(
        settings=settings,
        member=GroupMember(settings, slot),
        settlement=_settlement(
            settings, writer, OutcomeEncoder(settings, slot, facts.partition_counts, pool.precision_of)
        ),
        pool=pool,
        metrics=metrics,
        intake=Intake(settings.limits, settings.topics.priorities, _pricing(batching)),
        batcher=batcher,
        wait=wait,
        ledger=ledger,
        versions=RecordVersions(
            stamps=_stamps(settings),
            source=source or NoTimeline(),
            cuts=cuts,
            ledger=ledger,
            batcher=batcher,
            metrics=metrics.versions,
            model=settings.model.name,
            can_start=pool.has_instances,
            clock=time.monotonic,
            wall_clock=time.time,
        ),
        deadlines=DeadlineWatch(),
        breaker=Breaker(),
        budget=IntakeBudget(settings.worker.queue_bytes),
        service_time=ServiceTime(),
        live_streams=LiveStreams() if batching.overload == "drop_oldest" else None,
        clock=time.monotonic,
        wall_clock=time.time,
        report=lambda in_flight, versions: report(parts, in_flight, versions),
        batch_span=lambda topic, partition, offset: _batch_span(settings, topic, partition, offset),
        listener=lambda worker: PartitionLifecycle(parts, worker),
        commits_offsets=not exactly_once,
    )
    if settings.cache.enabled:
        parts.cache = _answer_cache(settings, pool, parts.metrics.cache)
    if source is not None:
        parts.shadow = _shadow_desk(settings, slot, pool, source, metrics.shadow)
    _observe(parts, writer)
    return parts


def _shadow_desk(
    settings: Settings, slot: str, pool: MemberPool, source: ShadowSource, metrics: ShadowMetrics
) -> ShadowDesk:
    # One half for copies that wait for the shadow, the other for those that wait to be compared.
    half = settings.worker.shadow_bytes // 2

    def make_courier() -> ShadowCourier:
        encoder = ComparisonEncoder(settings.topics.shadow, pool.precision_of)
        return ShadowCourier(encoder, ShadowWriter(settings, slot), metrics, half)

    return ShadowDesk(source, pool, make_courier, metrics, half)


def _stamps(settings: Settings) -> VersionStamps:
    model = settings.model
    return VersionStamps(model.name, None if model.version is None else ServedVersion(model.name, model.version, 0))


def _settlement(settings: Settings, writer: OutcomeWriter, encoder: OutcomeEncoder) -> Settlement:
    return Settlement(
        writer,
        encoder.encode,
        pace=CommitPace(settings.worker.commit_interval_ms / 1000),
        hold_seconds=settings.worker.transaction_timeout_ms / 2000,
    )


def _observe(parts: WorkerParts, writer: OutcomeWriter) -> None:
    """Let the gauges of a member ask the parts that know."""
    gauges = parts.metrics.member
    gauges.retirements.set_function(lambda: writer.retirements)
    gauges.fenced.set_function(lambda: parts.ledger.fenced)
    gauges.breaker.set_function(lambda: parts.breaker.is_open)


def lane_limits(settings: Settings) -> dict[int, BatchLimits]:
    """When batches of each lane are released, by priority. The most urgent of several never waits for company."""
    batching, largest = settings.batching, settings.batching.max_batch_size
    limits = BatchLimits(largest, batching.max_batch_bytes, batching.max_batch_cost or math.inf)
    if len(settings.topics.lanes) <= 1:
        return dict.fromkeys(settings.topics.lanes, limits)
    bulk = replace(limits, max_size=min(batching.bulk_batch_size or max(1, largest // 2), largest))
    lanes = dict.fromkeys(settings.topics.lanes, bulk)
    size = batching.urgent_batch_size or max(1, largest // 4)
    lanes[MOST_URGENT] = replace(limits, max_size=min(size, largest), at_once=True)
    return lanes


def _pricing(batching: BatchingSettings) -> Pricing | None:
    function = resolve_cost(batching.cost)
    return None if function is None else Pricing(function, batching.length_buckets)


def choose_wait(settings: Settings) -> WaitPolicy:
    """How long batches of one member wait."""
    batching = settings.batching
    return make_wait(batching.max_wait_ms, instances_per_member(settings), batching.max_batch_size)


def _answer_cache(settings: Settings, pool: ModelPool, metrics: CacheMetrics) -> AnswerCache:
    remote = AnswerCourier(partial(_connect_result_cache, settings)) if settings.cache.redis else None
    return AnswerCache(settings.cache, pool, metrics, remote)


def _connect_result_cache(settings: Settings) -> AnswerDoor:
    # On the courier's thread: the Redis client takes most of a second to import.
    from stream_workers.result_cache import ResultCache  # noqa: PLC0415 - see above

    return ResultCache(settings.redis, settings.cache)


def _batch_span(settings: Settings, topic: str, partition: int, offset: int) -> tuple[int, int]:
    # Imported when it is needed, which is almost never: a member that replaces a killed one must be quick to start.
    from producers.batch_span import batch_span  # noqa: PLC0415 - see above

    return batch_span(settings.kafka, topic, partition, offset)


def build_worker(parts: WorkerParts) -> Worker:
    """Make the worker of these parts."""
    return Worker(parts)
