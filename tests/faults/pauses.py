"""How long each partition went without an outcome. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Answered:
    """One outcome: the source partition and when the outcome was written, in epoch seconds."""

    topic: str
    partition: int
    at_seconds: float


@dataclass(frozen=True)
class Pause:
    """The longest time without an outcome of one source partition."""

    topic: str
    partition: int
    began_at_seconds: float
    seconds: float


def longest_pauses(answered: Iterable[Answered], begin_seconds: float, end_seconds: float) -> list[Pause]:
    """The longest pause of each partition within the window, longest first. The window's edges count as outcomes.

    Give the time under steady load as the window: a pause while nothing was sent says nothing.
    """
    times: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for outcome in answered:
        inside = times[outcome.topic, outcome.partition]
        if begin_seconds <= outcome.at_seconds <= end_seconds:
            inside.append(outcome.at_seconds)
    pauses = [_longest(place, [begin_seconds, *sorted(inside), end_seconds]) for place, inside in times.items()]
    return sorted(pauses, key=lambda pause: -pause.seconds)


def _longest(place: tuple[str, int], times: list[float]) -> Pause:
    seconds, began = max((later - earlier, earlier) for earlier, later in pairwise(times))
    return Pause(*place, began, seconds)
