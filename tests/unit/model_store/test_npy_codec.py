import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from model_store.npy_codec import decode_npy, stack_npy
from schemas.errors import InvalidInputError, InvalidRecordError, PayloadTooLargeError
from tests.unit.model_store.builders import npy, npy_header, npy_of

LIMIT = 10_000
DTYPES = st.one_of(
    hnp.boolean_dtypes(), hnp.integer_dtypes(endianness="?"), hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(sizes=(16, 32, 64), endianness="?"),
)  # fmt: skip


@given(hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, min_side=0)), st.booleans())
def test_what_numpy_saves_is_what_comes_back(array: np.ndarray, fortran: bool) -> None:
    stored = np.asfortranarray(array) if fortran else array

    decoded = decode_npy(npy_of(stored), LIMIT)

    assert decoded.shape == stored.shape
    assert decoded.dtype == array.dtype.newbyteorder("=")
    assert decoded.flags.c_contiguous
    np.testing.assert_array_equal(decoded, stored)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_refusal_of_the_record(data: bytes) -> None:
    for candidate in (data, b"\x93NUMPY" + data, npy(data.decode("latin1"), b"")):
        with pytest.raises(InvalidRecordError):
            decode_npy(candidate, LIMIT)


@pytest.mark.parametrize("descr", ["|O", "O", "|V8", "<U4", "|S4", "<M8[s]", "<c8", "<f16", "f4,f4", "<f3", "x", ""])
def test_a_dtype_that_is_not_plain_numbers_is_refused(descr: str) -> None:
    with pytest.raises(InvalidInputError, match="dtype"):
        decode_npy(npy(npy_header(descr), bytes(24)), LIMIT)


@pytest.mark.parametrize(
    "shape", ["(-1,)", "(2.0, 3)", "(True, 6)", "[2, 3]", "6", "(2, None)", "('6',)", str((1,) * 33)]
)
def test_a_shape_that_is_not_sizes_is_refused(shape: str) -> None:
    with pytest.raises(InvalidInputError, match="shape"):
        decode_npy(npy(npy_header(shape=shape), bytes(24)), LIMIT)


@pytest.mark.parametrize(
    "shape", ["(1000000000,)", "(4294967296, 4294967296)", "(0, 1000000000)", "(9223372036854775808, 0)", "(101, 100)"]
)
def test_a_shape_beyond_the_limit_is_refused_before_anything_of_that_size_exists(shape: str) -> None:
    with pytest.raises(PayloadTooLargeError):
        decode_npy(npy(npy_header(shape=shape), bytes(24)), LIMIT)


@pytest.mark.parametrize("size", [0, 23, 25, 48])
def test_bytes_that_are_not_shape_times_item_are_refused(size: int) -> None:
    with pytest.raises(InvalidInputError, match="24 bytes"):
        decode_npy(npy(npy_header(), bytes(size)), LIMIT)


@pytest.mark.parametrize(
    "header",
    [
        "{}", "[]", "1", "", "(" * 2000, "{'descr': __import__('os')}", "{'descr': '<f4'}", "[" * 90 + "]" * 90,
        npy_header(fortran="1"), npy_header()[:-1] + "'more': 1}", "9" * 4000,
    ],
)  # fmt: skip
def test_a_header_that_is_not_the_three_fields_is_refused(header: str) -> None:
    with pytest.raises(InvalidInputError):
        decode_npy(npy(header, bytes(24)), LIMIT)


def test_a_header_longer_than_the_limit_is_refused_unread() -> None:
    with pytest.raises(InvalidInputError, match="header of"):
        decode_npy(npy(npy_header() + " " * 5000, bytes(24)), LIMIT)


@pytest.mark.parametrize("version", [2, 3])
def test_the_later_header_formats_are_read(version: int) -> None:
    assert decode_npy(npy(npy_header(), bytes(24), version), LIMIT).shape == (2, 3)


def test_a_bool_that_is_neither_0_nor_1_becomes_true() -> None:
    decoded = decode_npy(npy(npy_header("|b1", "(3,)"), b"\x00\x07\xff"), LIMIT)

    assert decoded.view(np.uint8).tolist() == [0, 1, 1]


def test_like_arrays_are_stacked_in_order_and_writable() -> None:
    arrays = [np.arange(4, dtype="<f4") + n for n in range(3)]

    stacked = stack_npy([memoryview(npy_of(array)) for array in arrays], LIMIT)

    assert stacked is not None
    assert stacked.flags.writeable
    np.testing.assert_array_equal(stacked, np.stack(arrays))


def test_unlike_arrays_are_not_stacked() -> None:
    assert stack_npy([npy_of(np.zeros(4, "f4")), npy_of(np.zeros(4, "i4"))], LIMIT) is None
    assert stack_npy([npy_of(np.zeros(4, "f4")), npy_of(np.zeros(5, "f4"))], LIMIT) is None
