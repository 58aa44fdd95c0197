"""Decides whether a transactional producer may begin another transaction. Pure.

A commit message whose connection breaks is silently sent again; the first copy can arrive late and commit the *next*
transaction of the same producer, half-written or aborted. librdkafka reports the break in its log, and that line is
queued before the second copy is answered: whoever reads the log right after the commit returns cannot miss it.
Identical lines may be suppressed later on, so one is enough to condemn the producer for good. The `disconnects` of its
statistics say the same, up to an interval later, and serve as the second witness.

The time that the commit took tells nothing (the first reconnect is immediate), nor do `txretries`, which also count the
ordinary wait for the markers of the transaction before.
"""

import msgspec

_NEVER_CONNECTED = "in state CONNECT)"


class _Broker(msgspec.Struct):
    disconnects: int = 0


class _Statistics(msgspec.Struct):
    brokers: dict[str, _Broker] = {}


class TransactionWatch:
    """Follows one producer from its first transaction to its retirement."""

    def __init__(self) -> None:
        self.disturbance: str | None = None
        """What condemned the producer; None while it is clean."""
        self._disconnects: int | None = None

    def note_log(self, line: str) -> None:
        """Take in a line of the client's log. A connection that never came up cannot have carried a request."""
        if line.startswith("FAIL") and not line.rstrip().endswith(_NEVER_CONNECTED):
            self.disturbance = self.disturbance or line

    def note_statistics(self, text: str | bytes) -> None:
        """Take in one statistics event: connections of every broker count, since offsets go to another coordinator."""
        event = msgspec.json.decode(text, type=_Statistics)
        disconnects = sum(broker.disconnects for broker in event.brokers.values())
        if self._disconnects is not None and disconnects > self._disconnects:
            self.disturbance = self.disturbance or f"{disconnects - self._disconnects} connections broke"
        self._disconnects = disconnects

    def forgive(self) -> None:
        """Go on in spite of what was seen while the producer took its transactional id over."""
        self.disturbance = None
