"""A record keeps the version that it has met, whatever becomes active while it runs again."""

import pytest

from stream_workers.batching.work import Answer, Rejected, ServedVersion
from tests.fakes.fake_model_pool import VERSION
from tests.unit.stream_workers.worker_rig import P0, P1, Rig, fill

NEXT = ServedVersion("m", "v2", 2)


def versions_of(rig: Rig) -> list[tuple[int, int, str, int]]:
    """Partition, offset, version and epoch of every outcome."""
    found = []
    for item in rig.settlement.outcomes:
        assert isinstance(item.outcome, Answer | Rejected)
        version = item.outcome.version
        found.append((item.request.partition, item.request.offset, version.version, version.epoch))
    return found


@pytest.mark.parametrize("fault", ["raises", "kills"])
def test_a_rerun_keeps_its_version_when_another_became_active_meanwhile(fault: str) -> None:
    rig = Rig()

    def fails_once(_: object) -> bool:
        rig.pool.active = NEXT
        return len(rig.pool.batches) == 1

    setattr(rig.pool, fault, fails_once)
    fill(rig, 0, 4)
    rig.member.assign(P0)
    rig.turn(6)
    fill(rig, 0, 4)
    rig.turn(6)
    assert versions_of(rig) == [
        *((0, offset, "v1", 1) for offset in range(4)),
        *((0, offset, "v2", 2) for offset in range(4, 8)),
    ]


def test_a_rerun_waits_for_the_processes_of_its_version_and_holds_up_no_other_partition() -> None:
    rig = Rig()

    def dies_once(_: object) -> bool:
        if len(rig.pool.batches) > 1:
            return False
        rig.pool.active, rig.pool.missing = NEXT, {"v1"}
        return True

    rig.pool.kills = dies_once
    fill(rig, 0, 4)
    rig.member.assign(P0)
    rig.turn(6)
    fill(rig, 1, 4)
    rig.member.assign(P1)
    rig.turn(6)
    assert versions_of(rig) == [(1, offset, "v2", 2) for offset in range(4)]
    rig.pool.missing = set()
    rig.turn(6)
    assert versions_of(rig)[4:] == [(0, offset, "v1", 1) for offset in range(4)]


def test_the_report_names_the_versions_that_records_in_hand_are_pinned_to() -> None:
    rig = Rig()
    told: list[tuple[int, set[ServedVersion]]] = []
    rig.parts.report = lambda in_flight, versions: told.append((in_flight, set(versions)))
    rig.pool.holds = True
    fill(rig, 0, 4)
    rig.member.assign(P0)
    rig.turn(3)
    rig.pool.active = NEXT
    fill(rig, 0, 4)
    rig.turn(60)
    assert told[-1] == (2, {VERSION, NEXT})
    rig.pool.holds = False
    rig.turn(60)
    assert told[-1] == (0, set())
