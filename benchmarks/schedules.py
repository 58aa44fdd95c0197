"""Who runs when, and when each request of an open loop is due. Pure."""

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


def order_of_round(names: Sequence[str], number: int) -> list[str]:
    """The contestants in the order of round `number`: turned by one place each round.

    So nobody always runs on a cold or a tired machine, or always behind the same neighbour.
    """
    if not names:
        return []
    start = number % len(names)
    return [*names[start:], *names[:start]]


@dataclass(frozen=True)
class Phase:
    """A stretch of an open loop at one arrival rate."""

    per_second: float
    seconds: float


def schedule_arrivals(phases: Sequence[Phase], seed: int = 0) -> list[float]:
    """Seconds from the start at which requests are due: Poisson arrivals, the same for every contestant of a seed."""
    generator = random.Random(seed)  # noqa: S311 - arrivals, no secret
    due: list[float] = []
    for begin, phase in zip(_begins(phases), phases, strict=True):
        at = begin
        while (at := at + generator.expovariate(phase.per_second)) < begin + phase.seconds:
            due.append(at)
    return due


def _begins(phases: Sequence[Phase]) -> Iterator[float]:
    return itertools.accumulate((phase.seconds for phase in phases[:-1]), initial=0.0)
