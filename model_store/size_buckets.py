"""The batch sizes that a model is run with: few of them, so that compiled code, buffers and graphs are met again."""

import bisect
from collections.abc import Sequence


def plan_buckets(configured: Sequence[int] | None, max_batch_size: int, *, needed: bool) -> tuple[int, ...]:
    """Return the batch sizes in rising order, the largest batch last; empty means every size runs as it is.

    Without a configured list: the powers of two below the largest batch where they are `needed`, which is with compiled
    code or on CUDA, and none otherwise. An empty list switches buckets off.
    """
    if configured is None:
        configured = [1 << power for power in range(max_batch_size.bit_length())] if needed else []
    if not configured:
        return ()
    return (*sorted({size for size in configured if size < max_batch_size}), max_batch_size)


def bucket_for(count: int, buckets: Sequence[int]) -> int:
    """Return the smallest bucket that holds `count` records, or `count` itself when none does."""
    at = bisect.bisect_left(buckets, count)
    return buckets[at] if at < len(buckets) else count
