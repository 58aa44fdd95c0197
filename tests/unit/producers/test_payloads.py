"""Payloads and their content types."""

import io
import math

import numpy
import pytest

from producers.payloads import array_payload, file_payload, image_file_payload, json_payload
from schemas.errors import InvalidInputError
from schemas.records import JPEG, PNG


def test_an_array_is_read_back_without_pickle():
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    assert numpy.array_equal(numpy.load(io.BytesIO(array_payload(array)), allow_pickle=False), array)


def test_an_array_of_objects_is_refused():
    with pytest.raises(InvalidInputError, match="dtype object"):
        array_payload(numpy.array([{}, None], dtype=object))


@pytest.mark.parametrize("value", [object(), {1j}, {"a": lambda: 1}, math.nan, {"a": [1, (math.inf, None)]}])
def test_what_json_cannot_say_is_refused(value):
    with pytest.raises(InvalidInputError, match="not a JSON value"):
        json_payload(value)


def test_null_is_a_json_value():
    assert json_payload([None, {"null": 1.5}]) == b'[null,{"null":1.5}]'


def test_a_file_is_never_read_beyond_the_limit(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 11)
    with pytest.raises(InvalidInputError, match="larger than 10 bytes"):
        file_payload(path, limit=10)
    assert file_payload(path, limit=11)[0] == b"x" * 11


@pytest.mark.parametrize(("start", "kind"), [(b"\xff\xd8\xff", JPEG), (b"\x89PNG\r\n\x1a\n", PNG)])
def test_an_image_is_known_by_its_first_bytes(tmp_path, start, kind):
    path = tmp_path / "a.gif"
    path.write_bytes(start + b"rest")
    assert image_file_payload(path, limit=100) == (start + b"rest", kind)


def test_a_file_that_is_no_image_is_refused(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(b'{"a":1}')
    with pytest.raises(InvalidInputError, match="application/json, neither JPEG nor PNG"):
        image_file_payload(path, limit=100)
    with pytest.raises(InvalidInputError, match="No such file"):
        image_file_payload(tmp_path / "absent", limit=100)
