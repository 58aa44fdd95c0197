"""Decides whether a finished transaction was clean. Pure.

A commit message that is cut off and sent again can arrive late and commit the *next* transaction of the same producer,
half-written or aborted. librdkafka hides the cut; its statistics show it as risen `disconnects` or `txretries` of some
broker. A step that took less time than the shortest reconnect pause cannot contain a reconnect, so the usual quick
commit needs no statistics at all; after a slow one the next statistics decide.
"""

import enum

import msgspec

QUICK_STEP_SECONDS = 0.05
"""Below the shortest pause before a reconnect (100 ms less a quarter of jitter)."""


class _Broker(msgspec.Struct):
    disconnects: int = 0
    txretries: int = 0


class _Statistics(msgspec.Struct):
    ts: int
    brokers: dict[str, _Broker] = {}


class Statistics(msgspec.Struct, frozen=True):
    """What one statistics event says of the connections. `at_seconds` is on the monotonic clock."""

    at_seconds: float
    disturbances: int


def parse_statistics(text: str | bytes) -> Statistics:
    """Read librdkafka's statistics JSON; everything but the two counters and the time is passed over."""
    event = msgspec.json.decode(text, type=_Statistics)
    disturbances = sum(broker.disconnects + broker.txretries for broker in event.brokers.values())
    return Statistics(event.ts / 1e6, disturbances)


class Verdict(enum.Enum):
    """What is known of the last transaction."""

    CLEAN = "clean"
    """No request of it can still be under way: the producer may begin the next one."""
    UNCLEAN = "unclean"
    """Some request may have been sent twice: retire the producer."""
    UNKNOWN = "unknown"
    """A step was slow and no statistics have come since: wait for them."""


class TransactionWatch:
    """Follows one producer from transaction to transaction."""

    def __init__(self) -> None:
        self._baseline = 0
        self._latest: Statistics | None = None
        self._slowest = 0.0
        self._ended_at = 0.0

    def note_statistics(self, statistics: Statistics) -> None:
        """Take in one event."""
        self._latest = statistics

    def note_begin(self) -> None:
        """A transaction begins: what was seen until now belongs to the past."""
        self._baseline = self._latest.disturbances if self._latest else 0
        self._slowest = 0.0

    def note_step(self, started_at: float, ended_at: float) -> None:
        """A call that talks to a coordinator has returned."""
        self._slowest = max(self._slowest, ended_at - started_at)
        self._ended_at = ended_at

    def verdict(self) -> Verdict:
        """Judge the transaction whose last step has been noted."""
        latest = self._latest
        if latest is not None and latest.disturbances != self._baseline:
            return Verdict.UNCLEAN
        if self._slowest < QUICK_STEP_SECONDS or (latest is not None and latest.at_seconds >= self._ended_at):
            return Verdict.CLEAN
        return Verdict.UNKNOWN
