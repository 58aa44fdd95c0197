"""Lag: records that a group has still to read."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class PartitionLag:
    """One partition as seen by one group. `committed` is None when the group never committed there."""

    topic: str
    partition: int
    log_start: int
    end: int
    committed: int | None
    lag: int

    @property
    def no_commit(self) -> bool:
        """Whether the lag rests on where a new member would start, not on a commit."""
        return self.committed is None


def measure_lag(
    topic: str,
    partition: int,
    *,
    log_start: int,
    end: int,
    committed: int | None,
    start_from: Literal["earliest", "latest"],
) -> PartitionLag:
    """Compute the lag of one partition: never negative, and never counting what retention has deleted.

    `committed` must be read before `end`: the other way round a fast group looks as if it were ahead.
    """
    if committed is None:
        readable = end - log_start if start_from == "earliest" else 0
    else:
        readable = end - max(committed, log_start)
    return PartitionLag(topic, partition, log_start, end, committed, max(0, readable))
