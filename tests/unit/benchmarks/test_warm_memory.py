import mmap
import threading

import pytest

from benchmarks.runner import warm_memory as warming

STEP = 4 << 20


def pool_of(size: int) -> mmap.mmap:
    pool = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pool[0] = pool[size - 1] = 7
    return pool


def test_a_pool_is_given_up_to_its_last_byte() -> None:
    pool = pool_of(2 * STEP + 4096)

    assert warming.release(pool, 0.0, threading.Event()) == len(pool)
    assert (pool[0], pool[len(pool) - 1]) == (0, 0)


def test_the_end_of_the_run_ends_the_release() -> None:
    pool, stopped = pool_of(3 * STEP), threading.Event()
    stopped.set()

    assert warming.release(pool, 60.0, stopped) == STEP
    assert (pool[0], pool[len(pool) - 1]) == (0, 7)


@pytest.mark.parametrize(("page_seconds", "is_held"), [(1e-7, False), (1e-5, True)])
def test_memory_is_held_only_where_a_page_is_dear(
    monkeypatch: pytest.MonkeyPatch, page_seconds: float, is_held: bool
) -> None:
    touched: list[int] = []

    def touch(memory: mmap.mmap) -> float:
        touched.append(len(memory))
        return page_seconds

    monkeypatch.setattr(warming, "_touch", touch)
    with warming.warm_memory(STEP, 0.0):
        names = {thread.name for thread in threading.enumerate()}
    assert touched[1:] == ([STEP] if is_held else [])
    assert "warm-memory" not in {thread.name for thread in threading.enumerate()}
    assert is_held or "warm-memory" not in names
