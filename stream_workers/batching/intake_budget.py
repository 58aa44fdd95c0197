"""Decides which partitions pause so that the bytes a member holds stay bounded. Pure."""

from collections.abc import Mapping

PartitionKey = tuple[str, int]


class IntakeBudget:
    """Each assigned partition may hold an equal share of the budget, so one full partition never stops the others.

    A paused partition resumes at half its share: pausing throws away what the client has prefetched, so it must not
    flicker.
    """

    def __init__(self, total_bytes: int) -> None:
        self._total = total_bytes
        self.paused: frozenset[PartitionKey] = frozenset()

    def plan(self, held: Mapping[PartitionKey, int]) -> tuple[list[PartitionKey], list[PartitionKey]]:
        """Return the partitions to pause and those to resume, given the bytes each assigned partition holds.

        A partition that is not in `held` is not assigned any more and is forgotten.
        """
        share = self._total // max(1, len(held))
        full = {key for key, size in held.items() if size >= share or (key in self.paused and size > share // 2)}
        pause = sorted(full - self.paused)
        resume = sorted(key for key in self.paused - full if key in held)
        self.paused = frozenset(full)
        return pause, resume

    def forget(self, partition: PartitionKey) -> None:
        """A partition was taken away or given anew: it fetches when it comes, whatever it was before."""
        self.paused -= {partition}
