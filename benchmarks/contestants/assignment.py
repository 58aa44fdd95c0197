"""What a contestant is told: a JSON file whose path stands in one environment variable."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.workloads.specification import WORKLOADS, Workload

if TYPE_CHECKING:
    from benchmarks.workloads.task import ModelStep

VARIABLE = "BENCHMARK_ASSIGNMENT"
"""Not one of Headrace's own variables, which refuses those that it does not know."""


@dataclass(frozen=True)
class Assignment:
    """Everything that a contestant needs to know of one run."""

    workload: str
    bootstrap: str
    requests: str
    results: str
    group: str
    weights: str
    """Path of the safetensors file."""
    batch_size: int
    is_tuned: bool
    processes: int
    threads: int
    """Intra-op threads of one process; 0 for torch's default."""
    folder: str
    """For files of this run."""

    def write(self, path: Path) -> None:
        """Write the file that :func:`read_assignment` reads."""
        path.write_bytes(msgspec.json.encode(asdict(self)))

    @property
    def spec(self) -> Workload:
        """The workload."""
        return WORKLOADS[self.workload]

    def load_model(self) -> "ModelStep":
        """Load and warm the model."""
        from benchmarks.workloads.task import ModelStep  # noqa: PLC0415 - the harness writes assignments without torch

        return ModelStep(self.spec, Path(self.weights), is_tuned=self.is_tuned, threads=self.threads)


def read_assignment() -> Assignment:
    """The assignment of this process."""
    return msgspec.json.decode(Path(os.environ[VARIABLE]).read_bytes(), type=Assignment)


ID_HEADER = "ce_id"


def find_id(headers: Any) -> bytes:
    """The request's id in its headers, as Kafka clients hand them over; empty when there is none."""
    found: bytes = next((value for name, value in headers or () if name == ID_HEADER), b"")
    return found


def answer_headers(request_headers: Any) -> list[tuple[str, str | bytes | None]]:
    """The headers of an answer: the id of its request."""
    return [(ID_HEADER, find_id(request_headers))]
