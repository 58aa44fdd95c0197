"""The epoch beside a committed offset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_workers.batching.epoch_floor import decode_floor, encode_floor


@given(st.integers(0, 10**16 - 1))
def test_what_was_written_is_read(epoch: int) -> None:
    assert decode_floor(encode_floor(epoch)) == epoch


@pytest.mark.parametrize("metadata", [None, ""])
def test_no_text_is_no_floor(metadata: str | None) -> None:
    assert decode_floor(metadata) == 0


@pytest.mark.parametrize(
    "metadata",
    [
        "headrace:2:e=1",
        "headrace:1:e=-1",
        "headrace:1:e=01",
        "headrace:1:e=1\n",
        "headrace:1:e=" + "9" * 17,
        "x" * 5000,
    ],
)
def test_other_text_is_none_of_ours(metadata: str) -> None:
    assert decode_floor(metadata) is None
