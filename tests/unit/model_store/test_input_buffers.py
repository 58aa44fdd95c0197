from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from model_store.input_buffers import Buffer, InputBuffers

F4 = np.dtype(np.float32)
ROWS = 4


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.empty(shape, dtype)


def pool(max_bytes: int = 1 << 20) -> InputBuffers:
    return InputBuffers(ROWS, empty, max_bytes)


def lend(buffers: InputBuffers, shape: tuple[int, ...], dtype: np.dtype[Any] = F4, count: int = 1) -> Buffer:
    buffer = buffers.lend(shape, dtype, count)
    assert buffer is not None
    return buffer


def test_a_buffer_has_room_for_the_largest_batch_and_is_used_again() -> None:
    buffers = pool()

    first = lend(buffers, (3, 2))
    buffers.give_back(first)

    assert first.rows.shape == (ROWS, 3, 2)
    assert lend(buffers, (3, 2), count=ROWS) is first
    assert buffers.allocations == 1


def test_what_is_lent_is_never_lent_again_so_two_are_used_in_turn() -> None:
    buffers = pool()
    running = lend(buffers, (3,))
    for _ in range(10):
        prepared = lend(buffers, (3,))
        assert not np.shares_memory(prepared.rows, running.rows)
        buffers.give_back(running)
        running = prepared

    assert buffers.allocations == 2


def test_shapes_and_dtypes_have_buffers_of_their_own() -> None:
    buffers = pool()

    made = [lend(buffers, (3,)), lend(buffers, (4,)), lend(buffers, (3,), np.dtype(np.uint8))]

    assert [buffer.rows.dtype.name for buffer in made] == ["float32", "float32", "uint8"]
    assert buffers.allocations == 3


def test_what_was_used_longest_ago_goes_first() -> None:
    buffers = pool(20_000)
    for size in (500, 400):  # 8000 and 6400 bytes of rows
        buffers.give_back(lend(buffers, (size,)))
    buffers.give_back(lend(buffers, (500,)))

    buffers.give_back(lend(buffers, (450,)))

    before = buffers.allocations
    buffers.give_back(lend(buffers, (500,)))
    assert buffers.allocations == before
    buffers.give_back(lend(buffers, (400,)))
    assert buffers.allocations == before + 1


def test_a_batch_beyond_the_bounds_gets_no_buffer() -> None:
    buffers = pool(20_000)

    assert buffers.lend((100_000,), F4, 1) is None
    assert buffers.lend((1,), F4, ROWS + 1) is None
    assert buffers.held_bytes == 0


def test_what_is_lent_is_never_dropped_for_another() -> None:
    buffers = pool(20_000)
    held = [lend(buffers, (500,)), lend(buffers, (500,))]

    assert buffers.lend((400,), F4, 1) is None
    for buffer in held:
        buffers.give_back(buffer)
    assert buffers.lend((400,), F4, 1) is not None


@given(st.lists(st.tuples(st.integers(0, 3000), st.booleans()), max_size=80))
def test_the_bound_holds_whatever_shapes_come(wishes: list[tuple[int, bool]]) -> None:
    buffers = pool(64_000)
    lent: list[Buffer] = []
    for size, is_kept in wishes:
        buffer = buffers.lend((size,), F4, 1)
        if buffer is not None:
            assert not any(np.shares_memory(buffer.rows, other.rows) for other in lent)
            lent.append(buffer)
        if not is_kept and lent:
            buffers.give_back(lent.pop(0))
        assert buffers.held_bytes <= 64_000
        assert sum(one.rows.nbytes for one in lent) <= buffers.held_bytes


def test_many_kinds_of_nothing_are_bounded_too() -> None:
    buffers = pool(64_000)
    for size in range(1000):
        buffers.give_back(lend(buffers, (0, size)))

    assert len(buffers._kinds) <= 64
