import pytest

from model_store.canary.own_decisions import OwnDecisions
from model_store.timeline import Author, TimelineEntry
from schemas.errors import PointerConflictError
from tests.fakes.fake_live_versions import FakeLiveVersions


def latest(door: FakeLiveVersions) -> TimelineEntry:
    timeline = door.read("m")
    assert timeline is not None
    assert timeline.latest is not None
    return timeline.latest


def test_what_is_stored_through_it_is_its_own_and_nothing_else() -> None:
    door = FakeLiveVersions()
    own = OwnDecisions(door)
    door.activate("m", "old", 0, 10)

    assert own.is_empty
    assert not own.is_own(latest(door))
    own.move("m", lambda present: present.with_activation("new", 1, 20, author=Author("ann")))
    assert not own.is_empty
    assert own.is_own(latest(door))
    assert own.read("m") == door.read("m")


def test_a_decision_like_it_by_somebody_else_is_not_its_own() -> None:
    door = FakeLiveVersions()
    own = OwnDecisions(door)
    own.move("m", lambda present: present.with_activation("new", 0, 20, author=Author("ann")))

    door.move("m", lambda present: present.with_activation("new", 1, 20, author=Author("ann")))

    assert not own.is_own(latest(door))


def test_what_was_refused_was_not_tried() -> None:
    own = OwnDecisions(FakeLiveVersions())

    with pytest.raises(PointerConflictError):
        own.move("m", lambda present: present.with_activation("new", 7, 20))
    assert own.is_empty
