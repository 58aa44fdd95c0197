"""A settlement that commits when told to, in the caller's thread."""

from collections.abc import Mapping

from schemas.version_cuts import VersionCut
from stream_workers.batching.offset_ledger import Frontier, Settled
from stream_workers.batching.work import PartitionKey, WorkItem
from stream_workers.kafka.group_member import GroupSnapshot
from stream_workers.kafka.settlement import Commit


class FakeSettlement:
    """`outcomes` holds what was committed, in order. With `auto` each offer is committed at once."""

    def __init__(self, *, auto: bool = True) -> None:
        self.auto = auto
        self.offered: list[Settled] = []
        self.outcomes: list[WorkItem] = []
        self.cuts: list[VersionCut] = []
        self.committed: dict[PartitionKey, int] = {}
        self.epochs: dict[PartitionKey, int] = {}
        self.owned: Mapping[PartitionKey, int] = {}
        self.flushes = 0
        self.soon = False
        self.failure: Exception | None = None
        self._commits: list[Commit] = []

    def start(self) -> None:
        pass

    def offer(self, settled: Settled, *, soon: bool = False) -> None:
        self.offered.append(settled)
        self.soon = soon
        if self.auto:
            self.commit()

    def commit(self) -> None:
        for settled in self.offered:
            self.cuts += settled.cuts
            self.outcomes += settled.items
            frontiers: dict[PartitionKey, Frontier] = dict(settled.frontiers)
            self.committed |= {key: value.offset for key, value in frontiers.items()}
            self.epochs |= {key: value.epoch for key, value in frontiers.items()}
            self._commits.append(Commit(settled.items, frontiers, 0.001))
        self.offered = []

    def own(self, assignments: Mapping[PartitionKey, int]) -> None:
        self.owned = dict(assignments)

    def identify(self, snapshot: GroupSnapshot | None) -> None:
        pass

    def flush(self, timeout_seconds: float) -> bool:
        del timeout_seconds
        self.flushes += 1
        self.commit()
        return True

    def take_commits(self) -> list[Commit]:
        taken, self._commits = self._commits, []
        return taken

    def check(self) -> None:
        if self.failure:
            raise self.failure

    def stop(self, timeout_seconds: float) -> bool:
        return self.flush(timeout_seconds)
