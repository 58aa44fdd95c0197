"""Which rows of a batch job are surely written: the part of the job that must survive a crash without paying twice."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schemas.records import Position

Offsets = dict[tuple[str, int], int]
"""Next offset by topic and partition."""


@dataclass(frozen=True)
class PublishMark:
    """A moment of publishing, taken in one piece.

    Every row below `settled` is written or will never be. Every row from `sent` on was handed to the client after this
    moment, so it lies at or beyond `positions`.
    """

    settled: int
    sent: int
    positions: Offsets


class PublishFrontier:
    """Counts rows as they are sent and acknowledged. Thread-safe: acknowledgements come from the client's thread."""

    def __init__(self, settled: int, positions: Mapping[tuple[str, int], int], written: Iterable[int] = ()) -> None:
        self._lock = threading.Lock()
        self._settled = settled
        self._above = {row for row in written if row >= settled}
        # Rows written by an earlier run lie below this run's positions, so they must count as sent from the start.
        self._sent = max(self._above, default=settled - 1) + 1
        self._positions = dict(positions)
        self._advance()

    def send(self, row: int) -> None:
        """Count a row as sent. Call it before the row is handed to the client."""
        with self._lock:
            self._sent = max(self._sent, row + 1)

    def settle(self, row: int, position: Position | None = None) -> None:
        """Count a row as written at `position`, or as one that needs no writing."""
        with self._lock:
            self._sent = max(self._sent, row + 1)
            if row >= self._settled:
                self._above.add(row)
            if position is not None:
                partition = (position.topic, position.partition)
                self._positions[partition] = max(self._positions.get(partition, 0), position.offset + 1)
            self._advance()

    def is_settled(self, row: int) -> bool:
        """Whether a row is written, or needs no writing."""
        with self._lock:
            return row < self._settled or row in self._above

    def _advance(self) -> None:
        while self._settled in self._above:
            self._above.discard(self._settled)
            self._settled += 1

    def mark(self) -> PublishMark:
        """Take the moment."""
        with self._lock:
            return PublishMark(self._settled, self._sent, dict(self._positions))


def choose_scan_start(marks: Iterable[PublishMark], start: Offsets) -> tuple[int, Offsets]:
    """Tell the rows that are settled for sure, and from where the request topic must be read to find the others.

    The latest mark says what is settled; the reading starts at the latest mark before which no unsettled row was sent.
    """
    history = list(marks)
    settled = max((mark.settled for mark in history), default=0)
    positions = dict(start)
    for mark in history:
        if mark.sent <= settled:
            positions.update(mark.positions)
    return settled, positions
