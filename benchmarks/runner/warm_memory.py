"""Memory that is ready to be used, handed over while a run lasts.

The host of a virtual machine takes free memory back and gives it again page by page, which can cost more per page than
a contestant spends on the record that lies in it (35 against 1.2 microseconds were measured), and more in one minute
than in the next. So the benchmark touches memory before a run and gives it up bit by bit during the run: the kernel
hands out first what was freed last. Where a page is cheap, nothing is done.
"""

import contextlib
import mmap
import threading
import time
from collections.abc import Iterator

import numpy as np

MIB = 1 << 20
POOL_BYTES = 2048 * MIB
RELEASE_SECONDS = 12.0
"""Over how long the pool is given up: from the launch of a contestant to the end of its run, about."""
CHEAP_PAGE_SECONDS = 2e-6
_PROBE_BYTES = 64 * MIB
_STEP_BYTES = 4 * MIB


@contextlib.contextmanager
def warm_memory(pool_bytes: int = POOL_BYTES, seconds: float = RELEASE_SECONDS) -> Iterator[None]:
    """Give up touched memory during the `with` block, if pages are dear on this machine."""
    if _touch(_map(_PROBE_BYTES)) < CHEAP_PAGE_SECONDS:
        yield
        return
    pool = _map(pool_bytes)
    _touch(pool)
    stopped = threading.Event()
    releaser = threading.Thread(target=release, args=(pool, seconds, stopped), name="warm-memory", daemon=True)
    releaser.start()
    try:
        yield
    finally:
        stopped.set()
        releaser.join()


def release(pool: mmap.mmap, seconds: float, stopped: threading.Event) -> int:
    """Give a pool up in even steps over so many seconds, or until stopped; returns the bytes given up."""
    steps = range(0, len(pool), _STEP_BYTES)
    for start in steps:
        pool.madvise(mmap.MADV_DONTNEED, start, min(_STEP_BYTES, len(pool) - start))
        if stopped.wait(seconds / len(steps)):
            return start + _STEP_BYTES
    return len(pool)


def _map(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _touch(memory: mmap.mmap) -> float:
    """Write to every page; returns the seconds per page."""
    began = time.perf_counter()
    # The view ends here, so that the map can be given up.
    np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE] = 1
    return (time.perf_counter() - began) / (len(memory) / mmap.PAGESIZE)
