"""Which versions a member wants to have loaded."""

from model_store.timeline import Timeline
from stream_workers.batching.wanted_versions import LINGER_SECONDS, WantedVersions, find_live_entries
from stream_workers.batching.work import ServedVersion

V1, V2 = ServedVersion("m", "v1", 1), ServedVersion("m", "v2", 2)
ONE = Timeline().with_activation("v1", 0, 0)
ARMED = ONE.with_activation("v2", 1, 1000, effective_from_ms=3000)


def test_an_armed_switch_wants_both_and_the_main_one_changes_with_its_instant() -> None:
    wanted = WantedVersions("m")
    assert wanted.choose(ARMED, [], 2999, 0.0) == [V1, V2]
    assert wanted.choose(ARMED, [], 3000, 0.0) == [V2]


def test_a_switch_that_was_called_off_wants_nothing() -> None:
    off = ARMED.with_called_off(2, 1500)
    assert [entry.epoch for entry in find_live_entries(off, 2000)] == [1, 3]
    assert WantedVersions("m").choose(off, [], 2000, 0.0) == [V1]


def test_what_records_need_is_wanted_and_lingers_a_while() -> None:
    wanted = WantedVersions("m")
    unknown = ServedVersion("m", "", 9)
    assert wanted.choose(ARMED, [V1, unknown], 3000, 0.0) == [V2, V1]
    assert wanted.choose(ARMED, [], 3000, LINGER_SECONDS - 1) == [V2, V1]
    assert wanted.choose(ARMED, [], 3000, LINGER_SECONDS) == [V2]


def test_of_a_split_the_heaviest_is_the_main_one() -> None:
    split = Timeline().with_activation({"a": 1, "b": 9, "c": 1}, 0, 0)
    assert [version.version for version in WantedVersions("m").choose(split, [], 1, 0.0)] == ["b", "a", "c"]


def test_each_name_is_wanted_once_under_the_decision_that_counts_now() -> None:
    back = ONE.with_activation("v2", 1, 1000).with_activation("v1", 2, 2000)
    assert WantedVersions("m").choose(back, [V1, V2], 2000, 0.0) == [ServedVersion("m", "v1", 3), V2]


def test_before_the_first_decision_nothing_is_wanted() -> None:
    assert WantedVersions("m").choose(Timeline(), [], 0, 0.0) == []
