"""Shadows in Redis, and the same promises by the fake."""

from collections.abc import Iterator
from typing import Any

import pytest

from model_store import live_shadows
from model_store.live_shadows import LiveShadows
from model_store.live_versions import LiveVersions
from model_store.live_workers import LiveWorkers
from model_store.shadow import Shadow, encode_shadow
from model_store.timeline import Author
from model_store.worker_reports import Candidate, Orders, encode_candidate
from schemas.errors import ConfigurationError, InvalidPointerError, PointerConflictError
from schemas.settings import RedisSettings
from tests.fakes.fake_live_shadows import FakeLiveShadows
from tests.fakes.fake_live_versions import FakeLiveVersions

SHADOW = Shadow("v2", 10.0, 5, Author("ann@host", "see"))
CANDIDATE = Candidate("0" * 16, ("v3",), "bob@host", 6)


class StoredByHand(LiveShadows):
    """The real door, with a way for the test to put any value behind it."""

    def put(self, model: str, value: bytes) -> None:
        self._connection.client.set(self._key(model), value)


@pytest.fixture(params=["fake", "real"])
def doors(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any]]:
    if request.param == "fake":
        versions = FakeLiveVersions()
        yield versions, FakeLiveShadows(versions)
        return
    settings: RedisSettings = request.getfixturevalue("settings")
    real, shadows = LiveVersions(settings), StoredByHand(settings)
    yield real, shadows
    real.close()
    shadows.close()


def test_a_shadow_is_started_given_another_share_and_stopped(doors: tuple[Any, Any]) -> None:
    versions, shadows = doors
    versions.activate("m", "v1", 0, 1)
    assert shadows.read("m") is None
    assert shadows.start("m", SHADOW) is None
    assert shadows.read("m") == SHADOW
    assert shadows.start("m", Shadow("v2")) == SHADOW
    assert shadows.read("m") == Shadow("v2")
    assert (shadows.stop("m"), shadows.stop("m"), shadows.read("m")) == (True, False, None)


def test_what_may_not_run_changes_nothing(doors: tuple[Any, Any]) -> None:
    versions, shadows = doors
    with pytest.raises(ConfigurationError, match="no version is active"):
        shadows.start("m", SHADOW)
    versions.activate("m", "v1", 0, 1)
    shadows.start("m", SHADOW)
    with pytest.raises(PointerConflictError, match="ann@host has v2"):
        shadows.start("m", Shadow("v3"))
    assert shadows.read("m") == SHADOW


def test_a_stored_value_that_is_none_is_refused_and_stands_in_nobodys_way(doors: tuple[Any, Any]) -> None:
    versions, shadows = doors
    versions.activate("m", "v1", 0, 1)
    shadows.put("m", b"\x80garbage")
    with pytest.raises(InvalidPointerError):
        shadows.read("m")
    shadows.start("m", SHADOW)
    assert shadows.read("m") == SHADOW
    shadows.put("m", b"\x80garbage")
    assert shadows.stop("m")


def test_workers_read_candidate_and_shadow_at_once_and_pass_over_what_is_none(
    settings: RedisSettings, client: Any
) -> None:
    workers = LiveWorkers(settings)
    keys = (f"{settings.prefix}:candidate:m", f"{settings.prefix}:shadow:m")
    assert workers.read_orders("m") == Orders()
    client.set(keys[0], encode_candidate(CANDIDATE))
    client.set(keys[1], encode_shadow(SHADOW))
    assert workers.read_orders("m") == Orders(CANDIDATE, SHADOW)
    client.set(keys[1], b"x" * 100_000)
    assert workers.read_orders("m") == Orders(CANDIDATE)
    client.delete(keys[1])
    client.sadd(keys[1], b"a set")
    assert workers.read_orders("m") == Orders(CANDIDATE)
    workers.close()


def test_what_is_decided_while_a_shadow_is_started_is_not_passed_over(
    settings: RedisSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions, shadows = LiveVersions(settings), LiveShadows(settings)
    versions.activate("m", "v1", 0, 1)

    def decide_too_late(_: object, wanted: Shadow, *__: object) -> Shadow:
        versions.activate("m", "v2", 1, 2)
        return wanted

    monkeypatch.setattr(live_shadows, "replace_shadow", decide_too_late)
    with pytest.raises(PointerConflictError, match="somebody else"):
        shadows.start("m", SHADOW)
    assert shadows.read("m") is None
    versions.close()
    shadows.close()
