from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.switch_request import Instant, Quorum, parse_instant, parse_quorum, parse_split
from schemas.errors import ConfigurationError, UnsafeNameError


def test_one_version_takes_all_and_several_take_their_weights() -> None:
    assert parse_split(["v1"]) == {"v1": 1}
    assert parse_split(["v1=90", "v2=10"]) == {"v1": 90, "v2": 10}


@pytest.mark.parametrize(
    "words",
    [
        ["v1", "v2"],
        ["v1=1", "v1=2"],
        ["v1=", "v2=1"],
        ["v1=-1"],
        ["v1=1.5"],
        ["v1=0"],
        ["v1=9999999"],
        ["v1=00000000015"],
        [],
    ],
)
def test_a_split_that_cannot_be_read_is_a_configuration_error(words: list[str]) -> None:
    with pytest.raises(ConfigurationError):
        parse_split(words)


@pytest.mark.parametrize("words", [["../v1"], ["../v1=1"], ["=1"]])
def test_a_hostile_version_of_a_split_is_refused(words: list[str]) -> None:
    with pytest.raises(UnsafeNameError):
        parse_split(words)


def test_a_quorum_is_all_a_number_or_a_share() -> None:
    assert parse_quorum("all") == Quorum()
    assert parse_quorum("3") == Quorum(count=3)
    assert parse_quorum("80%") == Quorum(percent=80)


@pytest.mark.parametrize("text", ["", "0", "0%", "101%", "most", "-1", "1.5", "3 %", "all ", "99999"])
def test_a_quorum_that_cannot_be_read_is_a_configuration_error(text: str) -> None:
    with pytest.raises(ConfigurationError, match="quorum"):
        parse_quorum(text)


@given(st.integers(1, 100), st.integers(1, 1000))
def test_a_share_is_rounded_up_and_never_more_than_there_are(percent: int, live: int) -> None:
    needed = Quorum(percent=percent).count_needed(live)

    assert 1 <= needed <= live
    assert (needed - 1) * 100 < percent * live <= needed * 100


def test_all_is_every_live_worker() -> None:
    assert [Quorum().count_needed(live) for live in (1, 2, 9)] == [1, 2, 9]
    assert [Quorum().is_all, Quorum(percent=100).is_all, Quorum(percent=99).is_all, Quorum(count=1).is_all] == [
        True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "lead_ms"), [("now+2s", 2000), ("now+1500ms", 1500), ("now+5m", 300_000), ("now+1h", 3_600_000)]
)
def test_a_lead_counts_from_the_commit(text: str, lead_ms: int) -> None:
    assert parse_instant(text).resolve(1_000_000) == 1_000_000 + lead_ms


def test_a_time_of_the_clock_is_what_it_says() -> None:
    expected = round(datetime(2030, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)

    assert parse_instant("2030-01-31T12:00:00Z").resolve(5) == expected
    assert parse_instant("2030-01-31T13:00:00+01:00") == Instant(at_ms=expected)


@pytest.mark.parametrize(
    "text", ["", "now", "now-2s", "now+2", "now+2d", "now+999999h", "2030-01-31T12:00:00", "tomorrow", "now+2s "]
)
def test_an_instant_that_cannot_be_read_is_a_configuration_error(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--at"):
        parse_instant(text)
