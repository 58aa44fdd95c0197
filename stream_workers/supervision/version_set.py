"""The model processes of the versions of a slot, as far as a fleet counts them."""

from collections.abc import Mapping

from stream_workers.batching.work import ServedVersion
from stream_workers.links.messages import ResidentSet
from stream_workers.supervision.model_instance import InstanceState, ModelInstance
from stream_workers.supervision.residency_plan import Held
from stream_workers.supervision.restart_policy import RestartPolicy

SHADOW_RESTARTS = 3
"""In a minute, at most: each load of a shadow takes time of the cores, and nobody waits for it."""


class VersionSet:
    """`size` processes that are to have one version; those that are missing are started at `start_at`."""

    def __init__(
        self, version: ServedVersion, size: int, max_restarts: int, now: float, *, is_shadow: bool = False
    ) -> None:
        self.version = version
        self.is_shadow = is_shadow
        """They run for nobody, at the lowest priority, and never serve."""
        self.members: set[int] = set()
        self.start_at: list[float] = [now] * size
        self.policy = RestartPolicy(min(max_restarts, SHADOW_RESTARTS) if is_shadow else max_restarts)
        self.failed_loads = 0
        """Since one succeeded."""
        self.has_begun = False
        """False until its first process is started: until then it may wait for room."""
        self.was_whole = False
        self.has_served = False
        self.warm_since: float | None = None
        self._size = size

    @property
    def name(self) -> str:
        """The version's name."""
        return self.version.version

    def loaded(self, instances: Mapping[int, ModelInstance]) -> list[ModelInstance]:
        """Return those that are loaded, oldest first."""
        members = (instances[number] for number in sorted(self.members))
        return [instance for instance in members if instance.state is InstanceState.LOADED]

    def is_whole(self, instances: Mapping[int, ModelInstance]) -> bool:
        """True when all are loaded."""
        return len(self.loaded(instances)) == self._size

    def take_due(self, now: float) -> int:
        """Return how many are to be started now, and count them as started."""
        later = [at for at in self.start_at if at > now]
        due, self.start_at = len(self.start_at) - len(later), later
        self.has_begun = self.has_begun or due > 0
        return due

    def describe(self, instances: Mapping[int, ModelInstance]) -> Held:
        """Return what a plan must know of it."""
        return Held(self.name, self.is_whole(instances), self.has_served, self.warm_since, self.is_shadow)

    def announce(self, instances: Mapping[int, ModelInstance]) -> ResidentSet:
        """Return what a member must know of it."""
        loaded = [instance.number for instance in self.loaded(instances)]
        return ResidentSet(self.name, loaded, len(loaded) == self._size, self.is_shadow)


class VersionSets(dict[str, VersionSet]):
    """The sets of a slot, by the name of their version."""

    def of(self, instance: ModelInstance) -> VersionSet | None:
        """Return the set that this process belongs to; None once that was let go."""
        versions = self.get(instance.version.version)
        return versions if versions is not None and instance.number in versions.members else None

    def find_serving(self, name: str) -> VersionSet | None:
        """Return the set of a version unless it is a shadow's."""
        versions = self.get(name)
        return None if versions is None or versions.is_shadow else versions
