"""The book of requests that wait for the answer of another one. Pure.

Records with one key are one flight: its leaders get the answer themselves, its followers wait for the first of it. A
flight always has a leader; whoever takes the last one out is handed the followers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from stream_workers.batching.work import WorkItem


@dataclass(slots=True, eq=False)
class Flight:
    """Records in flight that share one key."""

    key: bytes
    leaders: list[WorkItem] = field(default_factory=list)
    followers: list[WorkItem] = field(default_factory=list)
    """In the order they came, including those that have had their outcome since."""


class SingleFlight:
    """Not thread-safe: one thread owns it."""

    def __init__(self) -> None:
        self._flights: dict[bytes, Flight] = {}
        self._led: dict[WorkItem, Flight] = {}

    def __len__(self) -> int:
        """Flights under way."""
        return len(self._flights)

    def join(self, key: bytes, item: WorkItem) -> bool:
        """True when `item` must get its answer itself: it is the first of its key, or more urgent than those before."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = Flight(key)
        elif item.priority >= min(leader.priority for leader in flight.leaders):
            flight.followers.append(item)
            return False
        flight.leaders.append(item)
        self._led[item] = flight
        return True

    def leads(self, item: WorkItem) -> bool:
        """True while others may be waiting for this record."""
        return item in self._led

    def land(self, item: WorkItem) -> Flight | None:
        """A record was answered: if it leads, end and return its flight. Other leaders go on for themselves."""
        flight = self._led.get(item)
        if flight is not None:
            self._end(flight)
        return flight

    def abandon(self, item: WorkItem) -> Flight | None:
        """A record ended without an answer: if it was the last leader, end and return its flight."""
        flight = self._led.pop(item, None)
        if flight is None:
            return None
        flight.leaders.remove(item)
        if flight.leaders:
            return None
        self._end(flight)
        return flight

    def forget(self, is_gone: Callable[[WorkItem], bool]) -> list[Flight]:
        """Take out all records that `is_gone` names; returns the flights that ended because no leader was left."""
        ended = []
        for flight in list(self._flights.values()):
            flight.followers = [item for item in flight.followers if not is_gone(item)]
            gone = [leader for leader in flight.leaders if is_gone(leader)]
            ended += [flight for leader in gone if self.abandon(leader) is not None]
        return ended

    def _end(self, flight: Flight) -> None:
        del self._flights[flight.key]
        for leader in flight.leaders:
            self._led.pop(leader, None)
