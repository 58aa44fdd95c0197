"""What a load may cost, as the supervisor sees it."""

import mmap
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from stream_workers.supervision.load_limits import LoadLimits, read_peak_bytes


@dataclass
class Loading:
    started_at: float = 0.0
    peak_bytes: int | None = None

    def read_peak_bytes(self) -> int | None:
        return self.peak_bytes


def test_time_and_memory_are_bounded_each_by_itself() -> None:
    limits = LoadLimits(10.0, 100)
    assert limits.find_excess(Loading(peak_bytes=100), 10.0) is None
    late = limits.find_excess(Loading(), 10.1)
    large = limits.find_excess(Loading(peak_bytes=101), 0.0)
    assert late is not None
    assert (late.error_class, late.message, late.permanent) == ("TimeoutError", "not loaded within 10 s", False)
    assert large is not None
    assert (large.error_class, large.permanent) == ("load_exceeded_memory", True)
    assert large.message == "101 bytes of memory, model.load_memory_bytes allows 100"


def test_without_a_bound_memory_is_not_looked_at() -> None:
    assert LoadLimits(10.0).find_excess(Loading(peak_bytes=1 << 40), 0.0) is None


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux: elsewhere the bound is not enforced")
def test_a_peak_is_remembered_after_the_memory_was_given_back() -> None:
    before = read_peak_bytes(os.getpid())
    assert before is not None
    held = mmap.mmap(-1, before + (32 << 20))
    for at in range(0, len(held), mmap.PAGESIZE):
        held[at] = 1
    held.close()
    after = read_peak_bytes(os.getpid())
    assert after is not None
    assert after >= before + (16 << 20)


def test_a_process_that_is_gone_says_nothing() -> None:
    assert read_peak_bytes(2**22 + 1) is None
