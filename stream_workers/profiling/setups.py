"""What is tried: how the cores are divided among model instances, and the batcher's settings on top. Values only."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from schemas.settings import Settings, cores
from stream_workers.batching.adaptive_wait import make_wait
from stream_workers.batching.waiting import WaitPolicy
from stream_workers.profiling.worker_simulation import WorkerShape

WaitChoice = float | Literal["auto"]
"""`batching.max_wait_ms`."""

WAITS_MS: tuple[WaitChoice, ...] = ("auto", 0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
SLOTS = (1, 2)


@dataclass(frozen=True, slots=True)
class Setup:
    """The model processes of one measurement."""

    version: str
    instances: int
    threads: int
    slots: int

    def apply(self, settings: Settings, max_batch_size: int) -> Settings:
        """Return the settings under which these model processes are started."""
        model = {"version": self.version, "instances": self.instances, "threads": self.threads}
        batching = {"slots": self.slots, "max_batch_size": max_batch_size}
        return settings.model_copy(
            update={
                "model": settings.model.model_copy(update=model),
                "batching": settings.batching.model_copy(update=batching),
            }
        )

    def describe(self) -> str:
        """Say it in a few words."""
        processes = f"{_count(self.instances, 'instance')} x {_count(self.threads, 'thread')}"
        return f"{self.version}: {processes}, {_count(self.slots, 'slot')}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A setup with the batcher's settings on top."""

    setup: Setup
    max_batch_size: int
    max_wait_ms: WaitChoice

    def shape(self) -> WorkerShape:
        """The worker to simulate."""
        return WorkerShape(self.setup.instances, self.setup.slots, self.max_batch_size)

    def new_wait(self) -> WaitPolicy:
        """A fresh wait policy, as the worker would have it."""
        return make_wait(self.max_wait_ms, self.setup.instances, self.max_batch_size)


def list_setups(settings: Settings, versions: Sequence[str]) -> list[Setup]:
    """All cores as instances of one thread, all as threads of one instance, and what the settings say; each once.

    With one slot: the number of slots is tried on the same processes.
    """
    available = max(1, cores() // settings.worker.members)
    splits = [(available, 1), (1, available)]
    if settings.model.instances is not None:
        splits.append((settings.model.instances, settings.model.threads))
    return [
        Setup(version, instances, threads, 1) for version in versions for instances, threads in dict.fromkeys(splits)
    ]


def list_sizes(largest: int) -> list[int]:
    """1, 2, 4 and so on, and the largest itself."""
    sizes = []
    size = 1
    while size < largest:
        sizes.append(size)
        size *= 2
    return [*sizes, largest]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
