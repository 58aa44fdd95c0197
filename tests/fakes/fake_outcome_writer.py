"""A writer in memory with a broker's memory behind it. It can be told to fail at a named step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from schemas.errors import FencedError, SettlementError
from stream_workers.batching.offset_ledger import Frontier
from stream_workers.batching.work import PartitionKey
from stream_workers.kafka.group_member import GroupSnapshot
from stream_workers.kafka.outcome_encoding import OutRecord


@dataclass
class FakeOutcomeWriter:
    """What was committed stays in `visible` and `committed`; `fail` names steps and how often each fails."""

    visible: list[OutRecord] = field(default_factory=list)
    committed: dict[PartitionKey, int] = field(default_factory=dict)
    epochs: dict[PartitionKey, int] = field(default_factory=dict)
    commits: list[dict[PartitionKey, int]] = field(default_factory=list)
    fail: dict[str, int] = field(default_factory=dict)
    fatal: str = ""
    calls: list[str] = field(default_factory=list)
    serials: list[int] = field(default_factory=list)
    on_commit: Callable[[], None] | None = None
    """Called once, when the next commit begins."""
    _open: list[OutRecord] = field(default_factory=list)

    def _meet(self, step: str) -> None:
        self.calls.append(step)
        if self.fatal == step:
            raise FencedError(step)
        if self.fail.get(step, 0):
            self.fail[step] -= 1
            raise SettlementError(step)

    def open(self) -> None:
        self._meet("open")

    def begin(self) -> None:
        self._meet("begin")
        self._open = []

    def send(self, record: OutRecord) -> None:
        self._meet("send")
        self._open.append(record)

    def settle_sent(self) -> None:
        self._meet("settle_sent")

    def commit(self, frontiers: Mapping[PartitionKey, Frontier], snapshot: GroupSnapshot) -> None:
        offsets = {key: frontier.offset for key, frontier in frontiers.items()}
        if self.on_commit is not None:
            self.on_commit, begun = None, self.on_commit
            begun()
        self._meet("commit")
        self.serials.append(snapshot.serial)
        self.visible += self._open
        self._open = []
        self.committed |= offsets
        self.epochs |= {key: frontier.epoch for key, frontier in frontiers.items()}
        self.commits.append(offsets)

    def settle_doubts(self) -> None:
        self._meet("settle_doubts")

    def start_over(self) -> None:
        self._meet("start_over")
        self._open = []

    def serve(self) -> None:
        pass

    def close(self) -> None:
        self.calls.append("close")
