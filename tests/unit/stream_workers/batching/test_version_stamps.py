"""What the path of a record is handed, beside what decides: see the tests of model_store.record_versions."""

from model_store.timeline import MAX_ENTRIES, Timeline
from stream_workers.batching.version_stamps import VersionStamps
from stream_workers.batching.work import ServedVersion
from tests.unit.stream_workers.builders import request

P0, P1 = ("requests", 0), ("requests", 1)
V1 = ServedVersion("m", "v1", 1)
ONLY_V1 = Timeline().with_activation("v1", 0, 0)
EXACT_V2 = ONLY_V1.with_activation("v2", 1, 0, effective_from_ms=50_000)


def opened(timeline: Timeline) -> VersionStamps:
    """Both partitions have met the first decision."""
    stamps = VersionStamps("m")
    stamps.adopt(timeline)
    for partition in (P0, P1):
        stamps.open(partition, {1: 0}, 1)
    return stamps


def test_there_is_one_version_for_all_until_a_newer_decision_is_adopted() -> None:
    stamps = opened(ONLY_V1)
    assert stamps.constant == V1
    stamps.adopt(EXACT_V2)
    assert stamps.constant is None
    assert stamps.stamp(request(5, timestamp_ms=49_999)) == V1


def test_there_is_one_version_again_once_every_partition_has_met_the_newest_decision() -> None:
    stamps = opened(EXACT_V2)
    newest = stamps.stamp(request(5, 0, timestamp_ms=50_000))
    assert stamps.constant is None
    stamps.stamp(request(5, 1, timestamp_ms=50_000))
    assert stamps.constant == newest == ServedVersion("m", "v2", 2)


def test_a_partition_that_was_taken_away_holds_up_nobody() -> None:
    stamps = opened(EXACT_V2)
    stamps.close(P1)
    stamps.stamp(request(5, 0, timestamp_ms=50_000))
    assert stamps.constant is not None
    stamps.adopt(EXACT_V2)
    assert stamps.constant is not None
    assert stamps.find_uncut_epoch(P1) is None


def test_a_record_without_a_key_goes_by_its_place() -> None:
    split = ONLY_V1.with_activation({"v1": 1, "v2": 1}, 1, 0)
    stamps = VersionStamps("m")
    stamps.adopt(split)
    for number in range(2):
        stamps.open(("requests", number), {2: 0}, 0)
    for offset in range(20):
        for number in range(2):
            picked = split.entries[-1].pick(f"requests:{number}:{offset}".encode())
            assert stamps.stamp(request(offset, number, key=None)).version == picked


def test_versions_of_decisions_that_are_kept_no_more_are_forgotten() -> None:
    stamps, timeline = opened(ONLY_V1), ONLY_V1
    for epoch in range(1, 3 * MAX_ENTRIES):
        timeline = timeline.with_activation("v1", epoch, epoch, effective_from_ms=epoch)
        stamps.adopt(timeline)
        stamps.stamp(request(epoch, timestamp_ms=epoch))
    assert len(stamps._served) <= MAX_ENTRIES + 1
