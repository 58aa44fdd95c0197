"""What the survey asks of a network: its answers under any plan, what its layers see, and how long it takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from model_store.precision.agreement import Outputs
from model_store.precision.calibration import InputStatistics
from model_store.precision.samples import Batch
from model_store.precision_plan import PrecisionPlan


@dataclass(frozen=True)
class Answers:
    """What one run of all batches gave."""

    outputs: list[Outputs]
    """One array per batch."""
    unit_seconds: Mapping[str, float]
    """Median seconds of each timed unit's calls."""
    weight_bytes: int
    """Memory of all parameters and buffers under the plan, whatever int8 layers keep beside their levels included."""


class Laboratory(Protocol):
    """A float32 network that can be run under any plan without being changed itself."""

    def list_quantisable(self) -> list[str]:
        """The layers that int8 kernels exist for."""

    def is_classifier(self, batch: Batch) -> bool:
        """Whether the raw output is one tensor [records, classes] with at least two classes."""

    def observe(self, batches: Sequence[Batch]) -> dict[str, InputStatistics]:
        """What each quantisable layer saw on its input, in float32. A layer that was never called is not named."""

    def answer(self, plan: PrecisionPlan, batches: Sequence[Batch], timed_units: Sequence[str] = ()) -> Answers:
        """Run all batches under a plan. Raises as `apply_precision`, and ManifestError when it fails."""

    def race(self, plans: Sequence[PrecisionPlan], batch: Batch, rounds: int) -> list[list[float]]:
        """Seconds of one run of the batch, by plan and round, all plans in turn in every round."""
