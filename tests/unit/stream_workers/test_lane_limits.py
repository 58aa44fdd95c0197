"""How large the batches of each lane may be."""

import pytest

from schemas.settings import BatchingSettings, Settings, TopicSettings
from stream_workers.assembly import lane_limits

LANES = TopicSettings(requests=("urgent", "bulk", "idle"), priorities={"bulk": 1, "idle": 2})


def sizes(topics: TopicSettings, batching: BatchingSettings) -> dict[int, int]:
    return {lane: limits.max_size for lane, limits in lane_limits(Settings(topics=topics, batching=batching)).items()}


def test_an_only_lane_has_the_largest_batches() -> None:
    assert sizes(TopicSettings(), BatchingSettings(max_batch_size=16, bulk_batch_size=4)) == {0: 16}


def test_beside_an_urgent_lane_bulk_batches_are_half_as_large() -> None:
    assert sizes(LANES, BatchingSettings(max_batch_size=16)) == {0: 4, 1: 8, 2: 8}


@pytest.mark.parametrize(("asked", "given"), [(3, 3), (64, 16)])
def test_sizes_that_are_set_are_held_within_the_largest(asked: int, given: int) -> None:
    batching = BatchingSettings(max_batch_size=16, bulk_batch_size=asked, urgent_batch_size=asked)
    assert sizes(LANES, batching) == {0: given, 1: given, 2: given}


def test_a_batch_is_never_empty() -> None:
    assert sizes(LANES, BatchingSettings(max_batch_size=1)) == {0: 1, 1: 1, 2: 1}
