"""Batch sizes that a model is run with, as settings."""

import pytest
from pydantic import ValidationError

from schemas.settings import BatchingSettings


@pytest.mark.parametrize("sizes", [(4, 2), (2, 2), (2, 17), (0, 2)])
def test_sizes_that_mean_nothing_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValidationError, match=r"size_buckets"):
        BatchingSettings(max_batch_size=16, size_buckets=sizes)


@pytest.mark.parametrize("sizes", [None, (), (4,), (4, 16)])
def test_sizes_up_to_the_largest_batch_are_taken(sizes: tuple[int, ...] | None) -> None:
    assert BatchingSettings(max_batch_size=16, size_buckets=sizes).size_buckets == sizes
