"""What a shadow is, which records it gets, and when it may run."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.shadow import MAX_SHADOW_BYTES, Shadow, decode_shadow, encode_shadow, replace_shadow
from model_store.timeline import Author, Timeline
from schemas.errors import ConfigurationError, InvalidPointerError, PipelineError, PointerConflictError, UnsafeNameError
from schemas.records import sticky_key

V1 = Timeline().with_activation("v1", 0, 1)
shares = st.floats(0, 100, exclude_min=True)


@given(st.binary(), shares, shares)
def test_a_larger_share_only_gains_keys(key: bytes, one: float, other: float) -> None:
    small, large = Shadow("v2", min(one, other)), Shadow("v2", max(one, other))
    assert not small.takes(key) or large.takes(key)
    assert Shadow("v2").takes(key)


def test_a_share_is_met_within_one_percent_and_falls_on_both_versions_of_a_split_alike() -> None:
    keys = [f"stream-{number}".encode() for number in range(10_000)]
    for percent in (1.0, 10.0, 50.0):
        taken = [key for key in keys if Shadow("v2", percent).takes(key)]
        assert abs(len(taken) / 100 - percent) <= 1
        low = sum(zlib.crc32(key) < 1 << 31 for key in taken) / len(taken)
        assert abs(low - 0.5) < 0.15


def test_a_record_without_a_key_is_chosen_by_its_place() -> None:
    assert sticky_key(None, "t", 3, 4) == b"t:3:4"
    assert sticky_key(b"", "t", 3, 4) == b""


@given(shares, st.integers(0, 1 << 53))
def test_a_shadow_is_read_back_as_it_was_written(percent: float, at_ms: int) -> None:
    shadow = Shadow("v2", percent, at_ms, Author("ann@host", "see"))
    assert decode_shadow(encode_shadow(shadow)) == shadow


@given(st.binary(max_size=200))
def test_any_bytes_are_a_shadow_or_refused(data: bytes) -> None:
    try:
        decode_shadow(data)
    except InvalidPointerError as error:
        assert str(error).isprintable()  # noqa: PT017 - either is right


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":"../up","percent":100}',
        b'{"version":"v2","percent":0}',
        b'{"version":"v2","percent":100.5}',
        b'{"version":"v2","percent":1e999}',
        b'{"version":"v2","percent":"all"}',
        b'{"version":"v2","percent":1,"by":"a\\nb"}',
        b'{"version":"v2","percent":1,"at_ms":-1}',
        b"[" * 3000,
        b" " * (MAX_SHADOW_BYTES + 1),
    ],
)
def test_a_shadow_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidPointerError, match="shadow"):
        decode_shadow(data)


@pytest.mark.parametrize(
    ("present", "timeline", "error", "words"),
    [
        (None, None, ConfigurationError, "no version is active"),
        (None, Timeline().with_activation("v2", 0, 1), ConfigurationError, "version v2 of m answers already"),
        (None, V1.with_activation({"v1": 1, "v3": 9}, 1, 2), ConfigurationError, "split between v1, v3"),
        (Shadow("v3", author=Author("ann@host")), V1, PointerConflictError, r"ann@host has v3 of m shadowed.*--stop"),
    ],
)
def test_a_shadow_that_may_not_run_is_refused_with_the_reason(
    present: Shadow | None, timeline: Timeline | None, error: type[PipelineError], words: str
) -> None:
    with pytest.raises(error, match=words):
        replace_shadow(present, Shadow("v2"), timeline, "m")


def test_the_same_version_may_be_given_another_share() -> None:
    assert replace_shadow(Shadow("v2", 5), Shadow("v2", 50), V1, "m") == Shadow("v2", 50)


def test_a_name_or_share_that_cannot_be_is_refused_when_it_is_made() -> None:
    with pytest.raises(UnsafeNameError):
        Shadow("../up")
    for share in (0.0, -1.0, 100.1, float("nan")):
        with pytest.raises(ConfigurationError, match="share"):
            Shadow("v2", share)
