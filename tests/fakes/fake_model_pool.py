"""A model in memory with a fixed number of slots. Tests decide per record what becomes of it, and when."""

from collections.abc import Callable

from schemas.records import Stage
from stream_workers.batching.work import Batch, RunMode, ServedVersion, WorkItem
from stream_workers.pipeline.contract import (
    BatchAnswered,
    BatchLost,
    BatchOutcome,
    BatchRaised,
    RecordOutcome,
    RecordRefused,
    Residency,
)

VERSION = ServedVersion("m", "v1", 1)


class FakeModelPool:
    """`holds` keeps batches inside until released; `raises` and `kills` look at one record each."""

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self.urgent_slots = 0
        self.active = VERSION
        self.missing = {""}
        """Names of versions that are not loaded."""
        self.told = Residency((VERSION.version,))
        self.holds = False
        self.raises: Callable[[WorkItem], bool] = lambda _: False
        self.kills: Callable[[WorkItem], bool] = lambda _: False
        self.refuses: Callable[[WorkItem], bool] = lambda _: False
        self.batches: list[Batch] = []
        self.deaths = 0
        self._inside: list[Batch] = []
        self.shadow = ""
        """The version that runs for nobody; empty for none."""
        self.shadow_slots = 2
        self.shadow_answers: Callable[[WorkItem], RecordOutcome] = lambda item: str(item.request.offset).encode()
        self.copies: list[Batch] = []
        """What the shadow has; it answers when `finish_copies` says so."""
        self._copies_back: list[BatchOutcome] = []

    def holds_shadow(self, version: str) -> bool:
        return version == self.shadow

    def is_shadow_ready(self, version: str) -> bool:
        return version == self.shadow

    def count_shadow_slots(self, version: str) -> int:
        return self.shadow_slots - len(self.copies) if version == self.shadow else 0

    def submit_copy(self, batch: Batch, now: float) -> None:
        assert batch.is_copy
        assert self.count_shadow_slots(batch.version.version) > 0
        self.copies.append(batch)

    def take_copies(self) -> list[BatchOutcome]:
        back, self._copies_back = self._copies_back, []
        return back

    def finish_copies(self) -> None:
        """The shadow answers what it has."""
        done, self.copies = self.copies, []
        self._copies_back += [
            BatchAnswered(batch, [self.shadow_answers(item) for item in batch.items], batch.version, 2.0)
            for batch in done
        ]

    def lose_copies(self, *, suspect: bool = True) -> None:
        """Its process ends with what it has."""
        done, self.copies = self.copies, []
        self._copies_back += [
            BatchLost(batch, [], suspect, None, "model_crashed", "signal 9", batch.version) for batch in done
        ]

    def count_free_slots(self, priority: int = 0, version: ServedVersion | None = None) -> int:
        if version is not None and version.version in self.missing:
            return 0
        return self.slots + (self.urgent_slots if priority == 0 else 0) - len(self._inside)

    def has_idle_instance(self, version: ServedVersion | None = None) -> bool:
        del version
        return not self._inside

    def has_instances(self, version: ServedVersion | None = None) -> bool:
        return version is None or version.version not in self.missing

    def active_version(self) -> ServedVersion | None:
        return self.active

    def resident(self) -> frozenset[str]:
        return frozenset(self.told.loaded)

    def residency(self) -> Residency:
        return self.told

    def answer_identity(self, version: ServedVersion | None = None) -> bytes:
        del version
        return b"i" * 32

    def precision_of(self, version: str) -> str:
        return "" if version in self.missing else "fp32"

    def submit(self, batch: Batch, now: float) -> None:
        del now
        self.batches.append(batch)
        self._inside.append(batch)

    def collect(self, timeout_seconds: float, now: float) -> list[BatchOutcome]:
        del timeout_seconds, now
        if self.holds:
            return []
        done, self._inside = self._inside, []
        outcomes: list[BatchOutcome] = []
        died = False
        for batch in done:
            outcomes.append(self._lost(batch, suspect=False) if died else self._run(batch))
            died = died or isinstance(outcomes[-1], BatchLost)
        return outcomes

    def _run(self, batch: Batch) -> BatchOutcome:
        killer = next((index for index, item in enumerate(batch.items) if self.kills(item)), None)
        if killer is not None:
            self.deaths += 1
            alone = batch.mode is RunMode.ISOLATED
            return self._lost(batch, suspect=True, answered=killer if alone else 0, culprit=killer if alone else None)
        if any(self.raises(item) for item in batch.items):
            return BatchRaised(batch, Stage.MODEL, "RuntimeError", "boom", batch.version)
        return BatchAnswered(batch, [self._answer(item) for item in batch.items], batch.version, 1.0)

    def _answer(self, item: WorkItem) -> bytes | RecordRefused:
        if self.refuses(item):
            return RecordRefused(Stage.PREPROCESS, "invalid_input", "InvalidInputError", "no")
        return str(item.request.offset).encode()

    def _lost(self, batch: Batch, *, suspect: bool, answered: int = 0, culprit: int | None = None) -> BatchLost:
        outcomes = [self._answer(item) for item in batch.items[:answered]]
        return BatchLost(batch, outcomes, suspect, culprit, "model_crashed", "signal 11", batch.version)
