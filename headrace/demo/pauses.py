"""How long a partition went without a result."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Pause:
    """The time between two results of one partition that follow each other, in seconds of the same clock."""

    partition: int
    began: float
    seconds: float


def find_longest_pause(
    arrivals: Mapping[int, Sequence[float]], *, after: float, before: float | None = None
) -> Pause | None:
    """Return the longest pause of any partition that ended at or after `after` and, if given, began before `before`.

    `arrivals` are the times of the results of each partition, in order. None when no partition has two results there.
    """
    pauses = [
        Pause(partition, first, second - first)
        for partition, times in arrivals.items()
        for first, second in itertools.pairwise(times)
        if second >= after and (before is None or first < before)
    ]
    return max(pauses, key=lambda pause: pause.seconds, default=None)
