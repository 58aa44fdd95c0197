import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save

from model_store.safetensors_check import UnsafeTensorsError, check_header, read_header_length
from model_store.tensor_codec import decode_tensors
from schemas.errors import InvalidInputError, InvalidRecordError, PayloadTooLargeError
from tests.unit.model_store.builders import safetensors, tensor

LIMIT = 10_000
ARRAYS = hnp.arrays(
    st.sampled_from(["f2", "f4", "f8", "i1", "i4", "i8", "u1", "u2", "?"]), hnp.array_shapes(min_dims=0)
)


@given(st.dictionaries(st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"), ARRAYS, max_size=4))
def test_what_the_library_saves_is_what_comes_back(arrays: dict[str, np.ndarray]) -> None:
    decoded = decode_tensors(save(arrays), LIMIT)

    assert decoded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert decoded[name].dtype == array.dtype
        np.testing.assert_array_equal(decoded[name], array)


@given(st.binary(max_size=100), st.binary(max_size=40))
def test_no_bytes_raise_anything_but_a_refusal_of_the_record(header: bytes, body: bytes) -> None:
    for data in (header, safetensors(b"{" + header, body)):
        with pytest.raises(InvalidRecordError):
            decode_tensors(data, LIMIT)


def test_bfloat16_becomes_float32() -> None:
    data = safetensors({"a": tensor(0, 4, [2], "BF16")}, b"\x80\x3f\x00\xc0")

    assert decode_tensors(data, LIMIT)["a"].tolist() == [1.0, -2.0]


@pytest.mark.parametrize(
    "header",
    [
        {"a": tensor(0, 8, [2]), "b": tensor(4, 12, [2])},
        {"a": tensor(0, 8, [2]), "b": tensor(12, 16, [1])},
        {"a": tensor(4, 16, [3])},
        {"a": tensor(0, 12, [3])},
        {"a": tensor(0, 20, [5])},
        {"a": tensor(0, 16, [2])},
        {"a": tensor(0, 16, [-4])},
        {"a": tensor(0, 16, [2**62, 2])},
        {"a": tensor(16, 0, [4])},
        {"a": tensor(0, 16, [4], "C64")},
        {"a": tensor(0, 16, [1] * 33)},
        {"a": {"dtype": "F32", "shape": [4]}},
        {"a": {**tensor(0, 16, [4]), "more": 1}},
        {"a": {**tensor(0, 16, [4]), "shape": "4"}},
        {"a": []},
        b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}',
        b'{"a":{"dtype":"F32","dtype":"F32","shape":[4],"data_offsets":[0,16]}}',
        b'{"a":' * 5000,
        b"[]",
        b"",
    ],
)
def test_a_header_that_does_not_fit_its_bytes_is_refused(header: object) -> None:
    with pytest.raises(InvalidInputError):
        decode_tensors(safetensors(header, bytes(16)), LIMIT)


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 2**32, 65 * 1024, 200])
def test_a_header_length_beyond_the_payload_is_refused(length: int) -> None:
    with pytest.raises(InvalidInputError, match="header length"):
        decode_tensors(safetensors({}, b"", length), LIMIT)


def test_too_many_elements_are_refused_before_anything_is_made_of_them() -> None:
    with pytest.raises(PayloadTooLargeError):
        decode_tensors(safetensors({"a": tensor(0, 20_000, [20_000], "BOOL")}, bytes(20_000)), LIMIT)
    with pytest.raises(PayloadTooLargeError):
        decode_tensors(safetensors({"a": tensor(0, 0, [0, 2**40])}), LIMIT)


def test_the_check_of_a_file_names_what_is_wrong() -> None:
    with pytest.raises(UnsafeTensorsError, match="trailing"):
        check_header(b"{}", 3)
    with pytest.raises(UnsafeTensorsError, match="tensors"):
        check_header(safetensors({"a": tensor(0, 4, [1]), "b": tensor(4, 8, [1])})[8:], 8, max_tensors=1)
    with pytest.raises(UnsafeTensorsError, match="8 bytes"):
        read_header_length(b"1234", 4)
