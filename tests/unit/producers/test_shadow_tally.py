"""Comparisons added up."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.shadow_reader import parse_span
from producers.shadow_tally import MAX_PAIRS, LatencySketch, ShadowTally
from schemas.errors import ConfigurationError
from schemas.records import Position, Stage
from schemas.shadow_records import LabelChange, ShadowBody, ShadowFailure, ShadowRecord, ShadowTimings


def record(number: int = 0, *, shadow: str = "v2", model: str = "m", **body: object) -> ShadowRecord:
    timings = ShadowTimings(10.0, 20.0, 4, 4)
    made = ShadowBody(
        **{"equal": False, "source": Position("t", 0, number), "source_timestamp_ms": 1, "timings": timings, **body}
    )  # type: ignore[arg-type]
    return ShadowRecord(
        request_id=f"r-{number}",
        key=None,
        model=model,
        version="v1",
        epoch=1,
        shadow=shadow,
        body=made,
        position=Position("shadow", 0, number),
    )


@given(st.lists(st.floats(0.01, 1e6), min_size=1), st.sampled_from([50, 95, 100]))
def test_percentiles_are_within_one_percent(values: list[float], percent: int) -> None:
    sketch = LatencySketch()
    for value in values:
        sketch.add(value)
    found = sketch.percentile(percent)
    true = sorted(values)[math.ceil(len(values) * percent / 100) - 1]
    assert found is not None
    assert abs(found - true) <= 0.0101 * true


def test_latencies_that_are_none_do_no_harm() -> None:
    sketch = LatencySketch()
    assert sketch.percentile(50) is None
    for value in (math.nan, math.inf, -3.0, 0.0):
        sketch.add(value)
    assert sketch.percentile(50) == pytest.approx(0.001, rel=0.02)


def test_agreement_differences_and_failures_are_told_by_pair_of_versions() -> None:
    tally = ShadowTally("m", tolerance=0.01)
    tally.add(record(1, equal=True, max_difference=0.0))
    tally.add(record(2, only_numbers=True, max_difference=0.005, changed=1))
    tally.add(record(3, only_numbers=True, max_difference=0.4, changed=1))
    tally.add(record(4, label=LabelChange("cat", "dog"), max_difference=0.1, changed=2))
    tally.add(record(5, failure=ShadowFailure(Stage.MODEL, "model_crashed", "E", "no")))
    tally.add(record(6, shadow="v3", equal=True))
    tally.add(record(7, model="other", equal=True))
    pair = tally.pairs["v1", "v2"]
    assert (pair.count, pair.equal, pair.agreeing, pair.agreement) == (5, 1, 2, 0.5)
    assert (pair.max_difference, pair.mean_difference) == (0.4, pytest.approx(0.505 / 4))
    assert (dict(pair.failed), pair.label_changes) == ({"model_crashed": 1}, 1)
    assert [one.request_id for one in pair.list_worst()] == ["r-5", "r-4", "r-3", "r-2"]
    first, second = map(json.loads, tally.lines())
    assert (first["shadow"], first["agreement"], second["shadow"], second["count"]) == ("v2", 0.5, "v3", 1)
    assert first["shadow_ms"]["p95"] == pytest.approx(20.0, rel=0.02)
    assert first["worst"][1]["label"] == {"active": "cat", "shadow": "dog"}


def test_only_the_worst_are_kept_and_only_so_many_pairs() -> None:
    tally = ShadowTally("m", worst=2)
    for number in range(50):
        tally.add(record(number, only_numbers=True, max_difference=float(number % 10), changed=1))
    assert [one.request_id for one in tally.pairs["v1", "v2"].list_worst()] == ["r-9", "r-19"]
    for number in range(2 * MAX_PAIRS):
        tally.add(record(number, shadow=f"s{number}"))
    assert len(tally.pairs) == MAX_PAIRS


def test_a_span_says_its_unit() -> None:
    assert [parse_span(text) for text in ("90s", "10m", "2h", "1d")] == [90_000, 600_000, 7_200_000, 86_400_000]
    for text in ("10", "m", "1w", "-1s", ""):
        with pytest.raises(ConfigurationError, match="90s or 10m"):
            parse_span(text)
