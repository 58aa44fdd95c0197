"""The smallest useful model: 256 numbers in, ten probabilities out. Register it as `examples.mlp:MlpClassifier`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from model_store.inference_model import InferenceModel
from model_store.payloads import Payload, stack_payloads
from schemas.errors import InvalidInputError
from schemas.records import NPY

FEATURES, CLASSES = 256, 10


def build_mlp(seed: int = 0) -> torch.nn.Module:
    """Return the 256-512-512-10 network with weights drawn from `seed`: the same on every host."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return torch.nn.Sequential(
            torch.nn.Linear(FEATURES, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, CLASSES),
        )


class MlpClassifier(InferenceModel):
    """Takes `.npy` float32 [256] or a JSON list of 256 numbers; answers ten probabilities, rounded to 6 places."""

    cacheable = True

    def build(self) -> torch.nn.Module:
        """See :class:`InferenceModel`."""
        return build_mlp()

    def preprocess(self, payload: Payload) -> npt.NDArray[np.float32]:
        """Refuses any other shape, and numbers that are not finite."""
        row = payload.numbers()
        if row.shape != (FEATURES,):
            raise InvalidInputError(f"{FEATURES} numbers are needed, not shape {row.shape}")
        if not np.isfinite(row).all():
            raise InvalidInputError("a number is NaN, infinite or beyond float32")
        return row

    def preprocess_batch(self, payloads: Sequence[Payload]) -> Any:
        """All records at once when they are sound and alike, else one by one."""
        rows = stack_payloads(payloads)
        if rows is not None and rows.dtype == np.float32 and rows.shape[1:] == (FEATURES,) and np.isfinite(rows).all():
            return rows
        return super().preprocess_batch(payloads)

    def postprocess(self, outputs: torch.Tensor, count: int) -> Sequence[Any]:
        """Ten probabilities per record."""
        probabilities: npt.NDArray[np.float64] = torch.softmax(outputs, dim=-1).double().numpy().round(6)
        return probabilities  # type: ignore[return-value]  # an array counts by its first axis

    def example(self) -> Payload:
        """A row of zeros."""
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (256,), }".ljust(117) + b"\n"
        return Payload(NPY, b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(4 * FEATURES))
