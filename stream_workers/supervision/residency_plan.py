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
    is_shadow: bool = False
    """Its processes run for nobody, at a priority that cannot be raised again: they never serve."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be loaded: the wanted versions, those of the candidate, and the active one while it lasts."""

    wanted: Sequence[str]
    candidates: Sequence[str] = ()
    active: str | None = None
    hopeless: Collection[str] = ()
    """Versions that are not tried now, since they have failed."""
    shadow: str | None = None
    """What is run for nobody while there is room for it; None, too, while it is not tried since it has failed."""

    def covers(self, name: str) -> bool:
        """True for a version that is not to be touched."""
        return name == self.active or name in self.wanted or name in self.candidates


@dataclass(frozen=True, slots=True)
class ResidencyPlan:
    """What to load, what to let go, and what has just become no more than warm. By name."""

    load: Sequence[str]
    let_go: Sequence[str]
    cool: Sequence[str]
    load_shadow: str | None = None
    shadow_wait: str = ""
    """Why the shadow is neither there nor loaded now, for a person."""


def plan_residency(needs: Needs, held: Sequence[Held], keep_warm_seconds: float, now: float) -> ResidencyPlan:
    """Plan for `now`, monotonic seconds.

    A version that has served becomes warm when it is not wanted any more and all that is wanted is whole, so that
    nothing is taken from what serves for the sake of a version that may never load. It is let go `keep_warm_seconds`
    later, or to make room for a load, the oldest first. A version that has not served is let go at once.

    A shadow has room when, beside what serves, is prepared or is kept warm, it is one of ROOMY_VERSIONS; it is loaded
    while nothing else is, and let go as soon as its place is needed.
    """
    there = {one.name: one for one in held if not one.is_shadow}
    missing = [name for name in dict.fromkeys((*needs.wanted, *needs.candidates)) if name not in there]
    load = [name for name in missing if name not in needs.hopeless]
    is_settled = all(name in there and there[name].is_whole for name in needs.wanted)
    let_go: list[str] = []
    cool: list[str] = []
    warm: list[tuple[float, str]] = []
    for one in there.values():
        if needs.covers(one.name):
            continue
        since = one.warm_since if one.warm_since is not None or not is_settled else now
        if not one.has_served or (since is not None and now - since >= keep_warm_seconds):
            let_go.append(one.name)
        elif since is not None:
            warm.append((since, one.name))
            if one.warm_since is None:
                cool.append(one.name)
    excess = len(there) - len(let_go) + len(load) - ROOMY_VERSIONS
    if load and excess > 0:
        let_go += [name for _, name in sorted(warm)[:excess]]
    cool = [name for name in cool if name not in let_go]
    left = {*there, *load}.difference(let_go)
    fits = needs.shadow is not None and needs.shadow not in left and len(left) < ROOMY_VERSIONS
    shadows = [one.name for one in held if one.is_shadow]
    let_go += [name for name in shadows if not fits or name != needs.shadow]
    is_quiet = is_settled and not load and not needs.candidates
    load_shadow = needs.shadow if fits and is_quiet and needs.shadow not in shadows else None
    is_there = load_shadow is not None or (fits and needs.shadow in shadows)
    return ResidencyPlan(load, let_go, cool, load_shadow, "" if is_there else _explain_wait(needs, sorted(left)))


def _explain_wait(needs: Needs, left: Sequence[str]) -> str:
    if needs.shadow is None:
        return ""
    if needs.covers(needs.shadow):
        return "it answers, or is prepared to"
    warm = [name for name in left if not needs.covers(name)]
    if warm:
        return f"waits while {', '.join(warm)} is kept warm for a rollback (model.keep_warm_seconds)"
    if len(left) >= ROOMY_VERSIONS:
        return f"waits for room: {', '.join(left)} are loaded"
    return "waits until nothing else is loaded"
