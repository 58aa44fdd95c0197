"""The reader during: follows the outcomes while things happen, and remembers which ones it was shown."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from producers.audit.access import AuditAccess
from producers.audit.ledger import Offsets
from schemas.records import Position

_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Sighting:
    """What a reader was shown: positions of records, all in the ranges from `begin` to `end`."""

    begin: Offsets
    end: Offsets
    seen: frozenset[Position]
    repeated: tuple[Position, ...] = ()
    """Positions that were shown twice; a client that works never does that."""

    def covers(self, position: Position) -> bool:
        """Tell whether the reader passed this position."""
        partition = (position.topic, position.partition)
        return self.begin.get(partition, 0) <= position.offset < self.end.get(partition, 0)


@dataclass
class Watcher:
    """Reads committed outcomes from `since` on, until it is told to stop."""

    access: AuditAccess
    topics: Collection[str]
    since: Offsets = field(default_factory=dict)

    def watch(self, is_over: Callable[[], bool]) -> Sighting:
        """Follow until `is_over()`. Raises UnavailableError."""
        seen: set[Position] = set()
        repeated: list[Position] = []
        follower = self.access.follow(self.topics, self.since)
        begin = dict(follower.positions())
        try:
            while not is_over():
                records = follower.poll(_POLL_SECONDS)
                repeated += [record.position for record in records if record.position in seen]
                seen.update(record.position for record in records)
            end = dict(follower.positions())
        finally:
            follower.close()
        return Sighting(begin, end, frozenset(seen), tuple(repeated))


def over_after(seconds: float, clock: Callable[[], float] = time.monotonic) -> Callable[[], bool]:
    """Make an `is_over` that turns true `seconds` after now."""
    deadline = clock() + seconds
    return lambda: clock() >= deadline
