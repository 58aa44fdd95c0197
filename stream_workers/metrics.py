"""The worker's metrics: names, meanings and the one object that the worker speaks to. The registry is passed in."""

from collections import Counter as Count
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from model_store.pointer_watch import PointerCounts
from stream_workers.batching.work import Answer, Batch, Expired, Rejected, Skipped, Superseded, WorkItem
from stream_workers.caching.recall import Found
from stream_workers.kafka.settlement import Commit
from stream_workers.pipeline.contract import BatchAnswered

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_STALLS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
_KINDS = {
    Answer: "ok",
    Expired: "expired",
    Superseded: "superseded",
    Rejected: "dead_letter",
    Skipped: "skipped",
}
_PARTS = ("decode", "forward", "encode")
_SAMPLES_PER_COMMIT = 16


def new_registry() -> CollectorRegistry:
    """A registry of one's own: nothing is registered globally."""
    return CollectorRegistry()


class DeliveryMetrics:
    """What came in and what became of it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        seconds = partial(Histogram, buckets=_SECONDS, registry=registry)
        self.records_polled = counter("headrace_records_polled", "Records taken in.", ["lane"])
        self.outcomes = counter("headrace_outcomes", "Committed outcomes by kind.", ["kind", "lane"])
        self.dead_letters = counter("headrace_dead_letters", "Committed dead letters.", ["code"])
        self.latency = seconds(
            "headrace_latency_seconds", "From a record's append time to the commit of its outcome; sampled.", ["lane"]
        )
        self.commit_seconds = seconds("headrace_commit_seconds", "One commit of outcomes and offsets.")
        self.produce_seconds = seconds(
            "headrace_produce_seconds", "Encoding the outcomes of one commit and handing them to the client."
        )
        self.commit_records = Histogram(
            "headrace_commit_records", "Outcomes of one commit.", buckets=(*_SIZES, 4096, 16384), registry=registry
        )
        self.records_lost = counter("headrace_records_lost", "Records that retention deleted before they were read.")
        self.unreadable = counter("headrace_unreadable_batches", "Batches stepped over, their records dead-lettered.")

    def note_commit(self, commit: Commit, wall_now: float) -> None:
        """Outcomes became durable. Latency is sampled to stay cheap."""
        self.commit_seconds.observe(commit.seconds)
        self.produce_seconds.observe(commit.produce_seconds)
        self.commit_records.observe(len(commit.items))
        counts = Count((type(item.outcome), item.priority) for item in commit.items)
        for (kind, lane), count in counts.items():
            self.outcomes.labels(_KINDS[kind], lane).inc(count)  # type: ignore[index]  # a committed item has an outcome
        for item in commit.items[:: max(1, len(commit.items) // _SAMPLES_PER_COMMIT)]:
            self.latency.labels(item.priority).observe(max(0.0, wall_now - item.request.timestamp_ms / 1000))
        rejections = Count(item.outcome.error.code for item in commit.items if type(item.outcome) is Rejected)
        for code, count in rejections.items():
            self.dead_letters.labels(code).inc(count)


class BatchMetrics:
    """How batches were formed and what running them took."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        seconds = partial(Histogram, buckets=_SECONDS, registry=registry)
        self.batches = counter("headrace_batches", "Batches by release reason.", ["reason", "lane"])
        self.batch_size = Histogram("headrace_batch_size", "Records per batch.", buckets=_SIZES, registry=registry)
        self.queue_wait = seconds("headrace_queue_wait_seconds", "Wait of a batch's first record.", ["lane"])
        self.model_seconds = seconds("headrace_model_seconds", "One batch in the model process.")
        self.stage_seconds = seconds(
            "headrace_stage_seconds", "Parts of a batch in the model process: decode, forward, encode.", ["part"]
        )
        self.failed_runs = counter("headrace_failed_runs", "Batches that failed.", ["reason"])
        self.cost = counter("headrace_batch_cost", "Cost of the records in batches, by batching.cost.")
        self.padded_cost = counter(
            "headrace_padded_batch_cost", "The same if every record cost what the dearest of its batch does."
        )
        self.padded_records = counter(
            "headrace_padded_records", "Rows that models computed for nobody, to fill a size bucket."
        )
        self.in_flight = gauge("headrace_batches_in_flight", "Batches that model processes hold.")
        self.queued = gauge("headrace_records_queued", "Records that wait for a batch.")
        self.oldest = gauge("headrace_oldest_queued_seconds", "Age of the record that has waited longest.", ["lane"])
        self._lanes: set[int] = set()

    def note_batch(self, batch: Batch, now: float) -> None:
        """A batch was submitted."""
        self.batches.labels(batch.reason.value, batch.priority).inc()
        self.batch_size.observe(len(batch.items))
        self.queue_wait.labels(batch.priority).observe(now - batch.items[0].polled_at)
        if batch.items[0].cost:
            costs = [item.cost for item in batch.items]
            self.cost.inc(sum(costs))
            self.padded_cost.inc(len(costs) * max(costs))

    def note_answered(self, answered: BatchAnswered) -> None:
        """A batch came back with an outcome per record."""
        self.model_seconds.observe(answered.model_ms / 1000)
        if answered.padded:
            self.padded_records.inc(answered.padded)
        for part, milliseconds in zip(_PARTS, answered.stages_ms, strict=False):
            self.stage_seconds.labels(part).observe(milliseconds / 1000)

    def note_waiting(self, in_flight: int, queued: int, oldest_polled_at: Mapping[int, float], now: float) -> None:
        """How much waits and runs at this moment."""
        self.in_flight.set(in_flight)
        self.queued.set(queued)
        self._lanes |= oldest_polled_at.keys()
        for lane in self._lanes:
            self.oldest.labels(lane).set(now - oldest_polled_at.get(lane, now))


class MemberMetrics:
    """The member's place in its group, what it holds, and the version it serves."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        self.rebalances = counter("headrace_rebalances", "Changes of the assignment.", ["event"])
        self.partitions = gauge("headrace_partitions_assigned", "Partitions of this member.")
        self.paused = gauge("headrace_partitions_paused", "Partitions paused by the byte budget.")
        self.held_bytes = gauge("headrace_held_bytes", "Bytes polled and not yet committed.")
        self.retirements = gauge("headrace_producer_retirements", "Producers replaced after an unclean transaction.")
        self.fenced = gauge("headrace_fenced_outcomes", "Late outcomes of partitions that are gone.")
        self.breaker = gauge("headrace_breaker_open", "1 while the model fails on everything.")
        self.refused_versions = counter("headrace_refused_versions", "Versions that could not be loaded.")
        self.version = gauge("headrace_active_version", "1 for the version that new batches meet.", ["version"])
        self._version = ""
        self.pointer_epoch = gauge("headrace_pointer_epoch", "Epoch of the version in use.")
        self.pointer_stale = gauge("headrace_pointer_stale_seconds", "Since the active version was last read.")

    def note_rebalance(self, event: str, partitions: int) -> None:
        """The assignment changed."""
        self.rebalances.labels(event).inc()
        self.partitions.set(partitions)

    def note_version(self, version: str, epoch: int) -> None:
        """New batches meet this version now; an empty name is none."""
        self.pointer_epoch.set(epoch)
        if version == self._version:
            return
        if self._version:
            self.version.remove(self._version)
        if version:
            self.version.labels(version).set(1)
        self._version = version

    def note_held(self, held_bytes: int, paused: int) -> None:
        """The byte budget was balanced."""
        self.held_bytes.set(held_bytes)
        self.paused.set(paused)


class VersionMetrics:
    """Switches as this member met them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        self.cuts = counter("headrace_version_cuts", "Cuts of partitions made and recorded.")
        self.restamped = counter("headrace_records_restamped", "Queued records that a switch gave another version.")
        self.holds = counter("headrace_intake_holds", "Times that nothing was taken in until Redis was looked at.")
        self.unknown_floors = counter(
            "headrace_unknown_offset_metadata", "Committed offsets with text beside them that is not ours."
        )
        self.refused_cuts = counter("headrace_refused_cuts", "Records of the control topic that are no cuts.")
        self.stall = Histogram(
            "headrace_switch_stall_seconds",
            "Per switch, up to the first batch under it: the time in which no batch could start because of it.",
            buckets=_STALLS,
            registry=registry,
        )
        self.waiting = gauge("headrace_records_waiting_for_version", "Queued records whose version is not loaded.")
        self.pointer_faults = gauge(
            "headrace_pointer_faults", "Reads of the active version that did not move it, by reason.", ["reason"]
        )

    def note_pointer(self, counts: PointerCounts) -> None:
        """The active version was read."""
        for reason, count in asdict(counts).items():
            self.pointer_faults.labels(reason).set(count)


class CacheMetrics:
    """What the result cache had, and what went wrong with it. All zero while it is off."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self.lookups = counter("headrace_cache_lookups", "Records by what the result cache had for them.", ["result"])
        self.faults = counter("headrace_cache_faults", "Exchanges with Redis that came to nothing.", ["reason"])
        self.held_bytes = Gauge("headrace_cache_bytes", "Answers held in memory.", registry=registry)

    def note(self, results: Mapping[Found, int], faults: Mapping[str, int], held_bytes: int) -> None:
        """Records were looked up."""
        for result, count in results.items():
            if count:
                self.lookups.labels(result.value).inc(count)
        for reason, count in faults.items():
            self.faults.labels(reason).inc(count)
        self.held_bytes.set(held_bytes)


class ShadowMetrics:
    """What became of the copies for a shadow version. All zero while there is none."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self.answered = counter("headrace_shadow_answered", "Copies that a shadow version answered.")
        self.different = counter("headrace_shadow_different", "Those whose answer is not equal to the active one.")
        self.failed = counter("headrace_shadow_failed", "Copies that it refused, or failed on.", ["code"])
        self.dropped = counter("headrace_shadow_dropped", "Copies that came to nothing, by reason.", ["reason"])


class WorkerMetrics:
    """Counts what one member does. Labels are bounded: kinds, reasons, lanes and codes, never a stream or an id."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.delivery = DeliveryMetrics(registry)
        self.batching = BatchMetrics(registry)
        self.member = MemberMetrics(registry)
        self.versions = VersionMetrics(registry)
        self.cache = CacheMetrics(registry)
        self.shadow = ShadowMetrics(registry)

    def note_polled(self, items: Sequence[WorkItem]) -> None:
        """Records entered the ledger."""
        for lane, count in Count(item.priority for item in items).items():
            self.delivery.records_polled.labels(lane).inc(count)

    def exposition(self) -> str:
        """Everything in Prometheus text format."""
        return generate_latest(self._registry).decode()
