"""Rows of 256 numbers through a small MLP: nothing but overhead, which is what it is for."""

import io
import json
from collections.abc import Sequence

import msgspec
import numpy as np
import torch

from benchmarks.workloads.task import ModelTask
from examples.mlp import FEATURES, build_mlp

_HEADER_BYTES = 128
_DISTINCT = 500


class SmallTask(ModelTask):
    """`.npy` of float32 [256], 1,152 bytes; answers ten probabilities."""

    def payloads(self) -> Sequence[bytes]:
        """See :class:`ModelTask`."""
        rows = np.random.default_rng(0).standard_normal((_DISTINCT, FEATURES), dtype=np.float32)
        return [_write_npy(row) for row in rows]

    def build(self) -> torch.nn.Module:
        """See :class:`ModelTask`."""
        return build_mlp()

    def state(self) -> dict[str, torch.Tensor]:
        """See :class:`ModelTask`."""
        return build_mlp().state_dict()

    def decode(self, payloads: Sequence[bytes], *, is_tuned: bool) -> torch.Tensor:
        """Float32 [n, 256]. The expert skips the header that is always the same and views the numbers."""
        if is_tuned:
            rows = np.frombuffer(b"".join(payload[_HEADER_BYTES:] for payload in payloads), np.float32)
            return torch.from_numpy(rows.reshape(len(payloads), FEATURES).copy())
        return torch.from_numpy(np.stack([np.load(io.BytesIO(payload)) for payload in payloads]))

    def encode(self, outputs: torch.Tensor, *, is_tuned: bool) -> list[bytes]:
        """Ten probabilities, rounded to six places."""
        rows = torch.softmax(outputs, dim=-1).double().numpy().round(6).tolist()
        return [msgspec.json.encode(row) if is_tuned else json.dumps(row).encode() for row in rows]


def _write_npy(row: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, row)
    return buffer.getvalue()
