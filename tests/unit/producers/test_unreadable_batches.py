"""Stepping over a batch that cannot be read."""

from hypothesis import given
from hypothesis import strategies as st

from producers.unreadable_batches import find_first_readable


@given(offset=st.integers(0, 10**9), rest=st.integers(0, 10**6))
def test_the_first_offset_behind_the_batch_is_found_with_few_looks(offset, rest):
    looks = []

    def is_readable(at):
        looks.append(at)
        return at >= offset + rest

    assert find_first_readable(offset, is_readable) == offset + rest
    assert len(looks) <= 2 * max(1, rest).bit_length() + 2
