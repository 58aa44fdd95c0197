"""A consumer group in memory: partitions of records, a committed offset each, and rebalances on demand."""

from collections.abc import Mapping, Sequence

from schemas.records import Request
from stream_workers.batching.epoch_floor import encode_floor
from stream_workers.batching.offset_ledger import Frontier
from stream_workers.batching.work import PartitionKey
from stream_workers.kafka.committed_offsets import CommittedOffset
from stream_workers.kafka.group_member import GroupSnapshot, Polled, RebalanceListener, UnreadableBatch


class FakeGroupMember:
    """Serves `log` from `committed` on. Tests write to both and call `assign`, `revoke` and `lose`."""

    def __init__(self) -> None:
        self.log: dict[PartitionKey, list[Request]] = {}
        self.committed: dict[PartitionKey, int] = {}
        self.metadata: dict[PartitionKey, str] = {}
        self.position: dict[PartitionKey, int] = {}
        self.paused: set[PartitionKey] = set()
        self.listener: RebalanceListener | None = None
        self.serial = 0
        self.is_member = True
        self.is_connected = True
        self.left = False
        self.unreadable: list[UnreadableBatch] = []
        self.records_lost: dict[PartitionKey, int] = {}
        self.sought: list[tuple[PartitionKey, int]] = []
        self.waits: list[float] = []

    def join(self, listener: RebalanceListener) -> None:
        self.listener = listener

    def assign(self, *partitions: PartitionKey) -> None:
        for key in partitions:
            self.position[key] = self.committed.get(key, 0)
            self.paused.discard(key)
        self._listener().on_assigned(
            {key: CommittedOffset(self.committed.get(key, -1), self.metadata.get(key, "")) for key in partitions}
        )

    def revoke(self, *partitions: PartitionKey) -> None:
        self._listener().on_revoked(partitions)
        for key in partitions:
            del self.position[key]

    def lose(self, *partitions: PartitionKey) -> None:
        self._listener().on_lost(partitions)
        for key in partitions:
            del self.position[key]

    def poll(self, max_records: int, wait_seconds: float) -> Polled:
        self.waits.append(wait_seconds)
        polled = Polled(unreadable=self.unreadable, records_lost=self.records_lost)
        self.unreadable, self.records_lost = [], {}
        for key, start in self.position.items():
            if key in self.paused:
                continue
            for record in self.log.get(key, []):
                if record.offset >= start and len(polled.requests) < max_records:
                    polled.requests.append(record)
                    self.position[key] = record.offset + 1
        return polled

    def snapshot(self) -> GroupSnapshot | None:
        self.serial += 1
        return GroupSnapshot(None, self.serial) if self.is_member else None

    def pause(self, partitions: Sequence[PartitionKey]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Sequence[PartitionKey]) -> None:
        self.paused -= set(partitions)

    def seek(self, partition: PartitionKey, offset: int) -> None:
        self.sought.append((partition, offset))
        self.position[partition] = offset

    def commit(self, frontiers: Mapping[PartitionKey, Frontier], *, wait: bool) -> None:
        del wait
        self.committed |= {key: frontier.offset for key, frontier in frontiers.items()}
        self.metadata |= {key: encode_floor(frontier.epoch) for key, frontier in frontiers.items()}

    def leave(self) -> None:
        self.left = True

    def _listener(self) -> RebalanceListener:
        if self.listener is None:
            raise RuntimeError("join first")
        return self.listener
