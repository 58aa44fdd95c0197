import numpy as np
import pytest

from model_store.payloads import Payload, stack_payloads
from schemas.errors import InvalidInputError
from schemas.records import JSON, NPY, TEXT
from schemas.settings import LimitSettings
from tests.unit.model_store.builders import npy_of


def test_numbers_come_from_json_and_from_npy_alike() -> None:
    from_json = Payload(JSON, b"[1, 2.5]").numbers()
    from_npy = Payload(NPY, memoryview(npy_of(np.array([1, 2.5])))).numbers()

    assert from_json.dtype == from_npy.dtype == np.float32
    np.testing.assert_array_equal(from_json, from_npy)


@pytest.mark.parametrize("text", [b"[[1], [1, 2]]", b'["1"]', b"null", b"[true]", b"[true, 2]", b"{}", b"[1e400]"])
def test_what_is_not_numbers_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidInputError):
        Payload(JSON, text).numbers()


def test_a_payload_that_is_no_array_is_named_by_its_type() -> None:
    with pytest.raises(InvalidInputError, match=r"application/x-npy or application/json.*taken as text/plain"):
        Payload(TEXT, b"GIF89a").numbers()
    with pytest.raises(InvalidInputError, match="a longer number"):
        Payload(JSON, b"[%d]" % 10**30).numbers()


def test_text_must_be_utf_8() -> None:
    assert Payload(TEXT, "é".encode()).text() == "é"
    with pytest.raises(InvalidInputError, match="byte 1"):
        Payload(TEXT, b"a\xff").text()


def test_the_limits_of_the_settings_hold() -> None:
    with pytest.raises(InvalidInputError.__base__):
        Payload(JSON, b"[[[]]]", limits=LimitSettings(json_depth=2)).json()


def test_unsound_or_unlike_payloads_are_left_to_the_slow_way() -> None:
    row = Payload(NPY, npy_of(np.zeros(3, "f4")))

    assert stack_payloads([row, row]) is not None
    assert stack_payloads([row, Payload(JSON, b"[0, 0, 0]")]) is None
    assert stack_payloads([Payload(NPY, b"broken")]) is None
    assert stack_payloads([Payload(NPY, row.data, limits=LimitSettings(elements=2))]) is None
    assert stack_payloads([]) is None
