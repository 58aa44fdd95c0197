"""What the demo knows of its streams while they run. Thread-safe: one thread publishes, one reads, one looks."""

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace.demo.latency_window import LatencyWindow, nearest_rank

WINDOW_SECONDS = 5.0


@dataclass(frozen=True)
class Answer:
    """One result as the demo needs it. `arrived_at` is a reading of the clock that also stamps publishing."""

    request_id: str
    label: str
    probability: float
    version: str
    partition: int
    batch_size: int
    arrived_at: float


@dataclass(frozen=True)
class StreamSnapshot:
    """One stream at one moment. `rate` is results per second over the last seconds."""

    name: str
    published: int
    answered: int
    rate: float
    label: str
    probability: float


@dataclass(frozen=True)
class Snapshot:
    """All streams at one moment. `lag` counts requests that were published and not yet answered."""

    streams: Sequence[StreamSnapshot]
    lag: int
    batch_fill: float
    p50_seconds: float | None
    p99_seconds: float | None
    version: str


@dataclass
class _Stream:
    published: int = 0
    answered: int = 0
    label: str = ""
    probability: float = 0.0
    window: LatencyWindow = field(default_factory=lambda: LatencyWindow(WINDOW_SECONDS))


class Scoreboard:
    """Counts and times by stream. An answer counts once; a repeat of it is ignored here and found by the ledger."""

    def __init__(self, names: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._streams = {name: _Stream() for name in names}
        self._waiting: dict[str, tuple[str, float]] = {}
        self._latencies: list[float] = []
        self._batch_sizes: list[int] = []
        self._window = LatencyWindow(WINDOW_SECONDS)
        self._arrivals: defaultdict[int, list[float]] = defaultdict(list)
        self._partitions: dict[int, str] = {}
        self._version = ""

    def note_published(self, request_id: str, stream: str, now: float) -> None:
        """Count a request before it is handed to Kafka, so that no answer can come first."""
        with self._lock:
            self._streams[stream].published += 1
            self._waiting[request_id] = (stream, now)

    def note_answer(self, answer: Answer) -> None:
        """Count a result that has arrived."""
        with self._lock:
            name, published_at = self._waiting.pop(answer.request_id, ("", 0.0))
            if not name:
                return
            stream = self._streams[name]
            stream.answered += 1
            stream.label, stream.probability = answer.label, answer.probability
            latency = answer.arrived_at - published_at
            stream.window.add(answer.arrived_at, latency)
            self._window.add(answer.arrived_at, latency)
            self._latencies.append(latency)
            self._batch_sizes.append(answer.batch_size)
            self._arrivals[answer.partition].append(answer.arrived_at)
            self._partitions[answer.partition] = name
            self._version = answer.version

    def note_refused(self, request_id: str) -> None:
        """Count a request that was answered by a dead letter: nobody waits for it any longer."""
        with self._lock:
            self._waiting.pop(request_id, None)

    def count_waiting(self) -> int:
        """Count requests without an outcome."""
        with self._lock:
            return len(self._waiting)

    def snapshot(self, now: float) -> Snapshot:
        """Describe this moment."""
        with self._lock:
            p50, p99 = self._window.percentiles(now, (50, 99))
            recent = self._batch_sizes[-100:]
            return Snapshot(
                streams=[_describe(name, stream, now) for name, stream in self._streams.items()],
                lag=len(self._waiting),
                batch_fill=sum(recent) / len(recent) if recent else 0.0,
                p50_seconds=p50,
                p99_seconds=p99,
                version=self._version,
            )

    def overall_percentile(self, percent: float) -> float | None:
        """Return a percentile of all latencies since the start, in seconds."""
        with self._lock:
            return nearest_rank(sorted(self._latencies), percent)

    def mean_batch_size(self) -> float:
        """Return the mean size of the batch that a result came from."""
        with self._lock:
            return sum(self._batch_sizes) / max(1, len(self._batch_sizes))

    def arrivals(self) -> Mapping[int, Sequence[float]]:
        """Return the arrival times of results by request partition."""
        with self._lock:
            return {partition: tuple(times) for partition, times in self._arrivals.items()}

    def stream_of(self, partition: int) -> str:
        """Name the stream that was last seen on a partition."""
        with self._lock:
            return self._partitions.get(partition, "")


def _describe(name: str, stream: _Stream, now: float) -> StreamSnapshot:
    rate = stream.window.rate(now)
    return StreamSnapshot(name, stream.published, stream.answered, rate, stream.label, stream.probability)
