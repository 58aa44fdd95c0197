"""Bytes to network inputs, a batch at a time."""

import numpy as np
import pytest

from model_store.picture_batches import scale_pictures


def test_a_batch_is_scaled_as_each_picture_would_be_and_stays_channels_last() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (3, 5, 7, 3), dtype=np.uint8)
    centre, spread = [10.0, 20.0, 30.0], [2.0, 4.0, 8.0]

    scaled = scale_pictures(torch.from_numpy(pictures).permute(0, 3, 1, 2), centre, spread)

    assert scaled.is_contiguous(memory_format=torch.channels_last)
    for picture, row in zip(pictures, scaled.numpy(), strict=True):
        wanted = ((picture.astype(np.float64) - centre) / spread).transpose(2, 0, 1)
        np.testing.assert_allclose(row, wanted, rtol=1e-6)
