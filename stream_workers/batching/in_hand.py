"""What a member has given to its model processes, and what it must give them again. Pure."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from stream_workers.batching.work import Batch, PartitionKey, Rerun, ServedVersion


class InHand:
    """Batches in flight, and reruns in the order in which they came. Not thread-safe: the worker's thread owns it."""

    def __init__(self) -> None:
        self._in_flight: dict[int, Batch] = {}
        self._reruns: deque[Rerun] = deque()

    def __bool__(self) -> bool:
        """True while there is a batch in flight or a rerun."""
        return bool(self._in_flight or self._reruns)

    def count_in_flight(self) -> int:
        """Batches that model processes have."""
        return len(self._in_flight)

    def start(self, batch: Batch) -> None:
        """A batch was submitted."""
        self._in_flight[batch.id] = batch

    def end(self, batch: Batch) -> None:
        """It came back, whatever became of it."""
        self._in_flight.pop(batch.id, None)

    def add_reruns(self, reruns: Iterable[Rerun]) -> None:
        """Records of batches that failed are to run again."""
        self._reruns.extend(reruns)

    def take_rerun(self, can_start: Callable[[ServedVersion], bool]) -> Rerun | None:
        """Remove and return the first rerun whose version can start a batch now; None when there is none."""
        if not self._reruns:
            return None
        able = {version for version in {rerun.version for rerun in self._reruns} if can_start(version)}
        for at, rerun in enumerate(self._reruns):
            if rerun.version in able:
                del self._reruns[at]
                return rerun
        return None

    def versions(self) -> set[ServedVersion]:
        """The versions that records in hand are pinned to: they must stay loaded."""
        in_flight = {batch.version for batch in self._in_flight.values()}
        return in_flight.union(rerun.version for rerun in self._reruns)

    def holds_any(self, partitions: Sequence[PartitionKey]) -> bool:
        """True when a record of one of these partitions has no outcome yet."""
        wanted = set(partitions)
        groups = [*(batch.items for batch in self._in_flight.values()), *(rerun.items for rerun in self._reruns)]
        return any(
            (item.request.topic, item.request.partition) in wanted and item.outcome is None
            for items in groups
            for item in items
        )
