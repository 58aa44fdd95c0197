"""The worker's metrics: names, meanings and the one object that the worker speaks to. The registry is passed in."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from stream_workers.batching.work import Answer, Batch, Expired, Rejected, Skipped, WorkItem
from stream_workers.kafka.settlement import Commit
from stream_workers.pipeline.contract import BatchAnswered

PartitionKey = tuple[str, int]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_KINDS = {Answer: "ok", Expired: "expired", Rejected: "dead_letter", Skipped: "skipped"}


def new_registry() -> CollectorRegistry:
    """A registry of one's own: nothing is registered globally."""
    return CollectorRegistry()


class WorkerMetrics:
    """Counts what one member does. Labels are bounded: kinds, reasons and codes, never a stream or an id."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.records_polled = Counter("headrace_records_polled", "Records taken in.", registry=registry)
        self.outcomes = Counter("headrace_outcomes", "Committed outcomes by kind.", ["kind"], registry=registry)
        self.dead_letters = Counter("headrace_dead_letters", "Committed dead letters.", ["code"], registry=registry)
        self.latency = Histogram(
            "headrace_latency_seconds",
            "From a record's append time to the commit of its outcome.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.batches = Counter("headrace_batches", "Batches by release reason.", ["reason"], registry=registry)
        self.batch_size = Histogram("headrace_batch_size", "Records per batch.", buckets=_SIZES, registry=registry)
        self.queue_wait = Histogram(
            "headrace_queue_wait_seconds", "Wait of a batch's first record.", buckets=_SECONDS, registry=registry
        )
        self.model_seconds = Histogram(
            "headrace_model_seconds", "One batch in the model process.", buckets=_SECONDS, registry=registry
        )
        self.failed_runs = Counter("headrace_failed_runs", "Batches that failed.", ["reason"], registry=registry)
        self.commit_seconds = Histogram(
            "headrace_commit_seconds", "One commit of outcomes and offsets.", buckets=_SECONDS, registry=registry
        )
        self.rebalances = Counter("headrace_rebalances", "Changes of the assignment.", ["event"], registry=registry)
        self.partitions = Gauge("headrace_partitions_assigned", "Partitions of this member.", registry=registry)
        self.paused = Gauge("headrace_partitions_paused", "Partitions paused by the byte budget.", registry=registry)
        self.held_bytes = Gauge("headrace_held_bytes", "Bytes polled and not yet committed.", registry=registry)
        self.records_lost = Counter(
            "headrace_records_lost", "Records that retention deleted before they were read.", registry=registry
        )
        self.unreadable = Counter(
            "headrace_unreadable_batches", "Batches stepped over, their records dead-lettered.", registry=registry
        )
        self.retirements = Gauge(
            "headrace_producer_retirements", "Producers replaced after an unclean transaction.", registry=registry
        )
        self.fenced = Gauge("headrace_fenced_outcomes", "Late outcomes of partitions that are gone.", registry=registry)
        self.breaker = Gauge("headrace_breaker_open", "1 while the model fails on everything.", registry=registry)
        self.refused_versions = Counter(
            "headrace_refused_versions", "Versions that could not be loaded.", registry=registry
        )
        self.pointer_epoch = Gauge("headrace_pointer_epoch", "Epoch of the version in use.", registry=registry)
        self.pointer_stale = Gauge(
            "headrace_pointer_stale_seconds", "Since the active version was last read.", registry=registry
        )

    def note_polled(self, items: Sequence[WorkItem]) -> None:
        """Records entered the ledger."""
        self.records_polled.inc(len(items))

    def note_records_lost(self, partition: PartitionKey, lost: int) -> None:
        """A committed offset lay before the start of the log."""
        del partition
        self.records_lost.inc(lost)

    def note_unreadable(self, partition: PartitionKey) -> None:
        """A batch was stepped over."""
        del partition
        self.unreadable.inc()

    def note_batch(self, batch: Batch, now: float) -> None:
        """A batch was submitted."""
        self.batches.labels(batch.reason.value).inc()
        self.batch_size.observe(len(batch.items))
        self.queue_wait.observe(now - batch.items[0].polled_at)

    def note_answered(self, answered: BatchAnswered) -> None:
        """A batch came back with an outcome per record."""
        self.model_seconds.observe(answered.model_ms / 1000)

    def note_failed_run(self, reason: str) -> None:
        """A batch failed as a whole."""
        self.failed_runs.labels(reason).inc()

    def note_commit(self, commit: Commit, wall_now: float) -> None:
        """Outcomes became durable. Latency is sampled once per commit and batch of equal timestamps to stay cheap."""
        self.commit_seconds.observe(commit.seconds)
        counts = dict.fromkeys(_KINDS.values(), 0)
        for item in commit.items:
            outcome = item.outcome
            counts[_KINDS[type(outcome)]] += 1  # type: ignore[index]  # a committed item has its outcome
            if type(outcome) is Rejected:
                self.dead_letters.labels(outcome.error.code).inc()
        for kind, count in counts.items():
            if count:
                self.outcomes.labels(kind).inc(count)
        for item in commit.items[:: max(1, len(commit.items) // 16)]:
            self.latency.observe(max(0.0, wall_now - item.request.timestamp_ms / 1000))

    def note_rebalance(self, event: str, partitions: int) -> None:
        """The assignment changed."""
        self.rebalances.labels(event).inc()
        self.partitions.set(partitions)

    def note_held(self, held_bytes: int, paused: int) -> None:
        """The byte budget was balanced."""
        self.held_bytes.set(held_bytes)
        self.paused.set(paused)

    def exposition(self) -> str:
        """Everything in Prometheus text format."""
        return generate_latest(self._registry).decode()
