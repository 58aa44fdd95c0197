"""The one pattern for names."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import UnsafeNameError
from schemas.names import NAME_PATTERN, check_name


@pytest.mark.parametrize("name", ["a", "resnet50", "v1.2.3", "a-b_c", "0", "a" * 64])
def test_a_safe_name_is_returned_as_it_is(name):
    assert check_name("model", name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../../etc/passwd",
        "/abs",
        "..\\..",
        "%2e%2e%2f",
        "v1/../v2",
        "v1\0",
        "v1\n",
        "a" * 65,
        "a..b",
        "-a",
        "_a",
        ".a",
        "A",
        "C:\\x",
        "file:///x",
        "\u202ev1",
        "v\uff0e1",
        "v1 ",
        None,
        1,
        b"v1",
        ["v1"],
    ],
)
def test_an_unsafe_name_is_refused_and_its_kind_is_named(name):
    with pytest.raises(UnsafeNameError, match="version"):
        check_name("version", name)


@given(st.text(max_size=80))
def test_whatever_passes_stays_inside_a_folder(name):
    try:
        check_name("model", name)
    except UnsafeNameError:
        return
    assert re.fullmatch(NAME_PATTERN, name)
    assert not set(name) & set("/\\\0 ")
    assert ".." not in name
    assert len(name) <= 64
