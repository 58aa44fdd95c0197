"""What a fleet is told by the settings."""

from dataclasses import dataclass

from schemas.settings import Settings, instances_per_member
from stream_workers.supervision.load_limits import LoadLimits


@dataclass(frozen=True, slots=True)
class FleetOptions:
    """How many processes serve a version, what a load may cost, and how often one may be restarted in a minute."""

    model: str
    instances: int
    limits: LoadLimits
    max_restarts: int
    keep_warm_seconds: float = 0.0
    pinned: bool = False
    """The version is fixed by the settings, so one that can never load is the end of the worker."""

    @classmethod
    def of(cls, settings: Settings) -> "FleetOptions":
        """Return the options of one slot of this worker."""
        model = settings.model
        return cls(
            model=model.name,
            instances=instances_per_member(settings),
            limits=LoadLimits(model.load_timeout_seconds, model.load_memory_bytes),
            max_restarts=settings.worker.max_restarts,
            keep_warm_seconds=model.keep_warm_seconds,
            pinned=model.version is not None,
        )
