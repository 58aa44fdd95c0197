"""Which attached model processes take batches of which version. Holds no socket and decides nothing but that."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stream_workers.batching.work import ServedVersion
from stream_workers.links.messages import Residents
from stream_workers.pipeline.contract import Refusal, Residency
from stream_workers.pipeline.replica import Replica

_NOTHING: Sequence[Replica] = ()


class ReplicaGroups:
    """Regrouped whenever the supervisor says what is resident or a replica comes, gets ready or goes: not per batch."""

    def __init__(self) -> None:
        self.active: ServedVersion | None = None
        """The main version that was asked for, once a replica of it is ready."""
        self.resident: frozenset[str] = frozenset()
        """Names of the versions of which a replica is ready."""
        self.leaving: Sequence[Replica] = _NOTHING
        """Replicas that no new batch will meet."""
        self.residency = Residency()
        self._announced: Residents | None = None
        self._by_version: dict[str, list[Replica]] = {}
        self._active_replicas: Sequence[Replica] = _NOTHING
        self._shadows: dict[str, list[Replica]] = {}

    def find(self, version: ServedVersion | None) -> Sequence[Replica]:
        """Return the replicas of a version, of the active one when none is given."""
        return self._active_replicas if version is None else self._by_version.get(version.version, _NOTHING)

    def find_shadow(self, version: str) -> Sequence[Replica] | None:
        """Return the replicas that run this version for nobody; None when there are to be none."""
        return self._shadows.get(version)

    def announce(self, residents: Residents, replicas: Mapping[int, Replica]) -> None:
        """The supervisor has said what is resident from now on."""
        self._announced = residents
        self.residency = _describe(residents)
        self.regroup(replicas)

    def regroup(self, replicas: Mapping[int, Replica]) -> None:
        """Sort the replicas anew. The active version is left only when a replica of the next one is ready."""
        announced = self._announced
        if announced is None:
            return
        groups = {
            (group.is_shadow, group.version): [replicas[number] for number in group.instances if number in replicas]
            for group in announced.sets
        }
        self._by_version = {name: group for (is_shadow, name), group in groups.items() if not is_shadow}
        self._shadows = {name: group for (is_shadow, name), group in groups.items() if is_shadow}
        self.resident = frozenset(name for name, group in self._by_version.items() if any(map(_is_able, group)))
        following, active = announced.active, self.active
        if following is not None and (
            following.version in self.resident or (active is not None and active.version == following.version)
        ):
            self.active = following
        elif active is not None and active.version not in self._by_version:
            # On its way out, but its successor is not ready yet.
            self._by_version[active.version] = [one for one in replicas.values() if one.version == active.version]
        self._active_replicas = self.find(self.active) if self.active is not None else _NOTHING
        kept = (*self._by_version.values(), *self._shadows.values())
        staying = {one.instance for group in kept for one in group}
        self.leaving = [one for one in replicas.values() if one.instance not in staying]


def _is_able(replica: Replica) -> bool:
    return replica.is_ready and not replica.is_gone


def _describe(residents: Residents) -> Residency:
    preparation = residents.preparation
    shadow = next((group for group in residents.sets if group.is_shadow), None)
    alone = Residency(
        tuple(group.version for group in residents.sets if group.is_whole and not group.is_shadow),
        failed=residents.failed,
        shadow="" if shadow is None else shadow.version,
        shadow_state=residents.shadow_wait if shadow is None else "runs" if shadow.instances else "loading",
    )
    if preparation is None:
        return alone
    refusal = Refusal(preparation.id, preparation.refusal) if preparation.refusal else None
    return replace(
        alone,
        preparing=None if refusal or preparation.is_ready else preparation.id,
        ready=preparation.id if preparation.is_ready else None,
        refused=refusal,
    )
