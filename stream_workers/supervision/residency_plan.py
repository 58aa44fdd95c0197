"""Which versions are loaded and which are let go. Pure: what is wanted and what is there in, a plan out."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

ROOMY_VERSIONS = 2
"""So many versions may always be loaded at once; a load that would make it more lets go of warm ones first."""


@dataclass(frozen=True, slots=True)
class Held:
    """A version that has processes, or is about to have."""

    name: str
    is_whole: bool
    """All of its processes are loaded."""
    has_served: bool
    warm_since: float | None
    """When it began to be kept for nothing but a way back."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be loaded: the wanted versions, those of the candidate, and the active one while it lasts."""

    wanted: Sequence[str]
    candidates: Sequence[str] = ()
    active: str | None = None
    hopeless: Collection[str] = ()
    """Versions that are not tried now, since they have failed."""

    def covers(self, name: str) -> bool:
        """True for a version that is not to be touched."""
        return name == self.active or name in self.wanted or name in self.candidates


@dataclass(frozen=True, slots=True)
class ResidencyPlan:
    """What to load, what to let go, and what has just become no more than warm. By name."""

    load: Sequence[str]
    let_go: Sequence[str]
    cool: Sequence[str]


def plan_residency(needs: Needs, held: Sequence[Held], keep_warm_seconds: float, now: float) -> ResidencyPlan:
    """Plan for `now`, monotonic seconds.

    A version that has served becomes warm when it is not wanted any more and all that is wanted is whole, so that
    nothing is taken from what serves for the sake of a version that may never load. It is let go `keep_warm_seconds`
    later, or to make room for a load, the oldest first. A version that has not served is let go at once.
    """
    there = {one.name: one for one in held}
    missing = [name for name in dict.fromkeys((*needs.wanted, *needs.candidates)) if name not in there]
    load = [name for name in missing if name not in needs.hopeless]
    is_settled = all(name in there and there[name].is_whole for name in needs.wanted)
    let_go: list[str] = []
    cool: list[str] = []
    warm: list[tuple[float, str]] = []
    for one in held:
        if needs.covers(one.name):
            continue
        since = one.warm_since if one.warm_since is not None or not is_settled else now
        if not one.has_served or (since is not None and now - since >= keep_warm_seconds):
            let_go.append(one.name)
        elif since is not None:
            warm.append((since, one.name))
            if one.warm_since is None:
                cool.append(one.name)
    excess = len(held) - len(let_go) + len(load) - ROOMY_VERSIONS
    if load and excess > 0:
        let_go += [name for _, name in sorted(warm)[:excess]]
    return ResidencyPlan(load, let_go, [name for name in cool if name not in let_go])
