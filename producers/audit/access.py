"""What an audit asks of Kafka. The client behind it lives in `producers/audit_reader.py`."""

import enum
from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from producers.audit.ledger import Offsets
from producers.outcomes import Record


class Edge(enum.Enum):
    """A place in every partition."""

    START = "start"
    """The oldest record that is still there."""
    STABLE = "stable"
    """The last stable offset: where a read_committed reader has to stop."""
    END = "end"
    """The high watermark: where any reader has to stop."""


class Follower(Protocol):
    """A reader that stays. `poll` returns what came, `positions` where it goes on."""

    def poll(self, timeout_seconds: float) -> list[Record]:
        """Read what there is; empty when nothing came in time."""

    def positions(self) -> Mapping[tuple[str, int], int]:
        """Tell where reading would go on, by topic and partition."""

    def close(self) -> None:
        """Disconnect."""


class AuditAccess(Protocol):
    """Kafka as an audit sees it. Every method raises UnavailableError when Kafka does not answer."""

    def offsets(self, topics: Collection[str], edge: Edge) -> dict[tuple[str, int], int]:
        """Read one edge of every partition of these topics."""

    def read(self, topics: Collection[str], since: Offsets) -> Iterator[Record]:
        """Read committed records from `since`, or the oldest, to where the topics end now, in order by partition."""

    def follow(self, topics: Collection[str], since: Offsets) -> Follower:
        """Open a read_committed reader at `since`, or the oldest records."""

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Read what a group has committed; partitions without a commit are absent."""

    def describe_open_transactions(self, partitions: Collection[tuple[str, int]]) -> list[str]:
        """Describe transactions that are open in these partitions, one line each."""
