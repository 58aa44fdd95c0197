"""Decisions and recorded cuts in memory."""

from collections.abc import Callable, Mapping

from model_store.timeline import Timeline
from stream_workers.batching.work import PartitionKey
from stream_workers.record_versions import Attempt


class FakeTimelineSource:
    """`publish` makes a timeline known; `look` tells the last look, None while the version is fixed."""

    def __init__(self, look: Callable[[], Attempt | None] = lambda: None) -> None:
        self.look = look
        self._timeline: Timeline | None = None

    @property
    def attempt(self) -> Attempt | None:
        return self.look()

    def publish(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def take_timeline(self) -> Timeline | None:
        taken, self._timeline = self._timeline, None
        return taken


class FakeCutSource:
    """`recorded` holds the cuts by partition and epoch; what is not caught up with is not known."""

    def __init__(self) -> None:
        self.recorded: dict[PartitionKey, dict[int, int]] = {}
        self.catch_ups = 0
        self._read: dict[PartitionKey, dict[int, int]] = {}

    def start(self) -> None:
        pass

    def catch_up(self) -> None:
        self.catch_ups += 1
        self._read = {partition: dict(cuts) for partition, cuts in self.recorded.items()}

    def cuts_of(self, partition: PartitionKey) -> Mapping[int, int]:
        return self._read.get(partition, {})
