"""Decides which partitions pause so that the bytes a member holds stay bounded. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping

from stream_workers.batching.work import PartitionKey, WorkItem


class IntakeBudget:
    """Each assigned partition may hold an equal share of the budget, so one full partition never stops the others.

    A paused partition resumes at half its share: pausing throws away what the client has prefetched, so it must not
    flicker.
    """

    def __init__(self, total_bytes: int) -> None:
        self._total = total_bytes
        self._settling: Counter[int] = Counter()
        self.paused: frozenset[PartitionKey] = frozenset()

    def note_settling(self, items: Iterable[WorkItem]) -> None:
        """Records have their outcome and wait for its commit: their bytes are still held."""
        settling = self._settling
        for item in items:
            settling[item.assignment] += item.payload_bytes

    def note_committed(self, items: Iterable[WorkItem]) -> None:
        """Their outcomes are durable: nothing of them is held any more."""
        settling = self._settling
        for item in items:
            settling[item.assignment] -= item.payload_bytes

    def sum_held(
        self, assignments: Mapping[PartitionKey, int], pending_bytes: Mapping[PartitionKey, int]
    ) -> dict[PartitionKey, int]:
        """Return the bytes that each assigned partition holds, before its outcomes (`pending_bytes`) and after.

        What the settlement dropped with a partition is never committed: it goes with its assignment.
        """
        settling = {key: self._settling[assignment] for key, assignment in assignments.items()}
        self._settling = Counter({assignments[key]: size for key, size in settling.items() if size})
        return {key: size + settling.get(key, 0) for key, size in pending_bytes.items()}

    def plan(
        self, held: Mapping[PartitionKey, int], *, stop: bool = False
    ) -> tuple[list[PartitionKey], list[PartitionKey]]:
        """Return the partitions to pause and those to resume, given the bytes each assigned partition holds.

        `stop` pauses all of them.
        A partition that is not in `held` is not assigned any more and is forgotten.
        """
        share = self._total // max(1, len(held))
        full = {key for key, size in held.items() if size >= share or (key in self.paused and size > share // 2)}
        if stop:
            full = set(held)
        pause = sorted(full - self.paused)
        resume = sorted(key for key in self.paused - full if key in held)
        self.paused = frozenset(full)
        return pause, resume

    def forget(self, partition: PartitionKey) -> None:
        """A partition was taken away or given anew: it fetches when it comes, whatever it was before."""
        self.paused -= {partition}
