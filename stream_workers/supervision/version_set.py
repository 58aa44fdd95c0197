"""The model processes of one version, as far as a fleet counts them."""

from collections.abc import Mapping

from stream_workers.batching.work import ServedVersion
from stream_workers.links.messages import ResidentSet
from stream_workers.supervision.model_instance import InstanceState, ModelInstance
from stream_workers.supervision.residency_plan import Held
from stream_workers.supervision.restart_policy import RestartPolicy


class VersionSet:
    """`size` processes that are to have one version; those that are missing are started at `start_at`."""

    def __init__(self, version: ServedVersion, size: int, max_restarts: int, now: float) -> None:
        self.version = version
        self.members: set[int] = set()
        self.start_at: list[float] = [now] * size
        self.policy = RestartPolicy(max_restarts)
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
        return Held(self.name, self.is_whole(instances), self.has_served, self.warm_since)

    def announce(self, instances: Mapping[int, ModelInstance]) -> ResidentSet:
        """Return what a member must know of it."""
        loaded = [instance.number for instance in self.loaded(instances)]
        return ResidentSet(self.name, loaded, len(loaded) == self._size)
