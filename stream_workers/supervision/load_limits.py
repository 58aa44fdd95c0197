"""What the load of a model process may cost. The supervisor looks on from outside (docs/decisions/0019)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from stream_workers.links.messages import LoadFailed

_PROC = Path("/proc")


class LoadingInstance(Protocol):
    """A model process that loads; see :class:`stream_workers.supervision.model_instance.ModelInstance`."""

    started_at: float

    def read_peak_bytes(self) -> int | None:
        """Return the most memory it has had at once; None where the system does not say."""


@dataclass(frozen=True, slots=True)
class LoadLimits:
    """Time and memory. `memory_bytes`: resident memory of the process, code and mapped weights too; None for any."""

    timeout_seconds: float
    memory_bytes: int | None = None

    def find_excess(self, instance: LoadingInstance, now: float) -> LoadFailed | None:
        """Return how a load that goes on has gone over a limit, None while it has not."""
        if now - instance.started_at > self.timeout_seconds:
            return LoadFailed("TimeoutError", f"not loaded within {self.timeout_seconds:g} s", permanent=False)
        return self.find_memory_excess(instance)

    def find_memory_excess(self, instance: LoadingInstance) -> LoadFailed | None:
        """Return how a load has taken, or had taken for a moment, more memory than is allowed."""
        peak_bytes = instance.read_peak_bytes() if self.memory_bytes is not None else None
        if self.memory_bytes is None or peak_bytes is None or peak_bytes <= self.memory_bytes:
            return None
        text = f"{peak_bytes:,} bytes of memory, model.load_memory_bytes allows {self.memory_bytes:,}"
        return LoadFailed("load_exceeded_memory", text, permanent=True)


def read_peak_bytes(process_id: int) -> int | None:
    """Return the most resident memory that a process has had so far; None where the system does not say.

    The kernel keeps the high-water mark itself, so a peak between two looks is not missed.
    """
    try:
        lines = (_PROC / str(process_id) / "status").read_text().splitlines()
    except OSError:
        return None
    kibibytes = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return kibibytes[0] * 1024 if kibibytes else None
