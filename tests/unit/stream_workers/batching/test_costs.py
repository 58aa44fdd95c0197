"""What a record costs, and what becomes of one whose cost cannot be had."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from schemas.errors import ConfigurationError, InvalidInputError
from schemas.records import JPEG, JSON, PNG, Stage
from schemas.settings import LimitSettings
from stream_workers.batching.costs import Pricing, resolve_cost
from stream_workers.batching.intake import Intake
from stream_workers.batching.work import Rejected
from tests.unit.stream_workers.builders import VERSION, request


def picture(kind: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (30, 20)).save(file, kind)
    return file.getvalue()


def test_pixels_are_read_from_the_header() -> None:
    price = resolve_cost("pixels")
    assert price is not None
    assert [price(JPEG, picture("JPEG")), price(PNG, picture("PNG")), price(JSON, b"[1]")] == [600, 600, 0]
    with pytest.raises(InvalidInputError, match="not a sound JPEG"):
        price(JPEG, b"\xff\xd8\xff")
    with pytest.raises(InvalidInputError, match="not a sound PNG"):
        price(PNG, b"\x89PNG")


def test_bytes_and_tokens_follow_the_length() -> None:
    count, estimate = resolve_cost("bytes"), resolve_cost("tokens")
    assert count is not None
    assert estimate is not None
    assert [count(JSON, b"12345"), estimate(JSON, b"12345"), estimate(JSON, b"")] == [5, 2, 0]


def test_no_name_is_no_cost_and_a_path_is_imported() -> None:
    assert resolve_cost("") is None
    found = resolve_cost("operator:concat")
    assert found is not None
    with pytest.raises(ConfigurationError, match=r"batching.cost: no_such_module:cost cannot be imported"):
        resolve_cost("no_such_module:cost")
    with pytest.raises(ConfigurationError, match="is not a function"):
        resolve_cost("string:digits")


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), -1.0, "dear", None])
def test_what_is_no_cost_is_refused(answer: object) -> None:
    pricing = Pricing(lambda *_: answer)  # type: ignore[arg-type,return-value]  # a function that breaks its promise
    with pytest.raises(InvalidInputError, match=r"batching\.cost"):
        pricing.price(JSON, b"1")


def test_a_cost_function_that_raises_costs_its_record_only() -> None:
    def picky(_: str, payload: bytes) -> float:
        if payload == b"bad":
            raise RuntimeError("no idea")
        return len(payload)

    intake = Intake(LimitSettings(), pricing=Pricing(picky, (2.0, 4.0)))
    requests = [request(0, payload=b"bad"), request(1, payload=b"good"), request(2, payload=b"ok")]
    bad, good, ok = intake.take_in(requests, {}, {("requests", 0): 1}, VERSION, 0.0)
    assert isinstance(bad.outcome, Rejected)
    assert (bad.outcome.error.stage, bad.outcome.error.code) == (Stage.VALIDATE, "invalid_input")
    assert "batching.cost raised RuntimeError: no idea" in bad.outcome.error.message
    assert [(one.outcome, one.cost, one.shape_key) for one in (good, ok)] == [
        (None, 4.0, (JSON, 1)),
        (None, 2.0, (JSON, 0)),
    ]


@given(cost=st.floats(0, 100), buckets=st.lists(st.floats(1, 99), max_size=5, unique=True))
def test_a_bucket_holds_what_lies_between_its_bounds(cost: float, buckets: list[float]) -> None:
    bounds = sorted(buckets)
    shape = Pricing(lambda *_: 0.0, bounds).tell_apart("s", cost)
    if not bounds:
        assert shape == "s"
        return
    assert isinstance(shape, tuple)
    index = shape[1]
    assert index == 0 or cost > bounds[index - 1]
    assert index == len(bounds) or cost <= bounds[index]
