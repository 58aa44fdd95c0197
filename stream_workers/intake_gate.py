"""What was polled and may not be taken in yet. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from stream_workers.batching.work import PartitionKey
from stream_workers.kafka.group_member import Polled

Assignments = Mapping[PartitionKey, int]


@dataclass(frozen=True, slots=True)
class _Held:
    polled: Polled
    assignments: Assignments
    """As they were at the poll: a partition that was given anew since is read again from its committed offset."""


class IntakeGate:
    """Holds polls in order. Not thread-safe: one thread owns it."""

    def __init__(self) -> None:
        self._held: list[_Held] = []

    @property
    def holds(self) -> bool:
        """True while something waits."""
        return bool(self._held)

    def held(self) -> list[Polled]:
        """Everything that waits, in order."""
        return [one.polled for one in self._held]

    def hold(self, polled: Polled, assignments: Assignments) -> None:
        """Keep a poll, and under which assignments it came."""
        self._held.append(_Held(polled, dict(assignments)))

    def release(self, assignments: Assignments) -> list[Polled]:
        """Return everything that waited, in order, without what belongs to partitions that have moved since."""
        held, self._held = self._held, []
        return [_without_moved(one, assignments) for one in held]


def _without_moved(held: _Held, assignments: Assignments) -> Polled:
    polled, before = held.polled, held.assignments
    if before == assignments:
        return polled

    def stayed(key: PartitionKey) -> bool:
        return key in assignments and assignments[key] == before.get(key)

    kept = Polled(records_lost=polled.records_lost)
    for index, request in enumerate(polled.requests):
        if stayed((request.topic, request.partition)):
            if index in polled.faults:
                kept.faults[len(kept.requests)] = polled.faults[index]
            kept.requests.append(request)
    kept.ends = {key: end for key, end in polled.ends.items() if stayed(key)}
    kept.unreadable = [one for one in polled.unreadable if stayed(one.partition)]
    return kept
