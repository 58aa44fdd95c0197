from collections.abc import Iterator
from typing import Any

import pytest
import redis
from pydantic import SecretStr

from model_store.live_versions import LiveVersions
from model_store.redis_connection import exclusively
from model_store.timeline import Timeline
from model_store.timeline_codec import MAX_TIMELINE_BYTES
from schemas.errors import (
    ConfigurationError,
    InvalidPointerError,
    PointerConflictError,
    UnavailableError,
    UnsafeNameError,
    VersionNotFoundError,
)
from schemas.settings import RedisSettings
from tests.fakes.fake_live_versions import FakeLiveVersions


class StoredByHand(LiveVersions):
    """The real door, with a way for the test to put any value behind it."""

    def put(self, model: str, value: bytes) -> None:
        self._connection.client.set(self._key(model), value)


@pytest.fixture
def real(settings: RedisSettings) -> Iterator[StoredByHand]:
    live = StoredByHand(settings)
    yield live
    live.close()


@pytest.fixture(params=["fake", "real"])
def live(request: pytest.FixtureRequest) -> Any:
    return FakeLiveVersions() if request.param == "fake" else request.getfixturevalue("real")


def test_there_is_nothing_before_the_first_activation(live: Any) -> None:
    assert live.read("m") is None


def test_what_was_activated_is_read(live: Any) -> None:
    first = live.activate("m", "v1", 0, 1000)
    second = live.activate("m", "v2", 1, 2000)

    assert live.read("m") == second == first.with_activation("v2", 1, 2000)
    assert live.read("other") is None


def test_an_activation_with_an_old_epoch_changes_nothing(live: Any) -> None:
    first = live.activate("m", "v1", 0, 1000)

    with pytest.raises(PointerConflictError):
        live.activate("m", "v2", 0, 2000)
    assert live.read("m") == first


@pytest.mark.parametrize("name", ["../x", "a:b", "", "a b", "a*"])
def test_hostile_names_reach_no_key(live: Any, name: str) -> None:
    for call in (
        lambda: live.read(name),
        lambda: live.activate(name, "v1", 0, 0),
        lambda: live.activate("m", name, 0, 0),
    ):
        with pytest.raises(UnsafeNameError):
            call()


@pytest.mark.parametrize("value", [b"", b"v1", b"{}", b"\x80\x04.", b"[" * 5000, b"x" * (MAX_TIMELINE_BYTES + 1)])
def test_a_value_that_is_no_timeline_is_refused_until_the_operator_replaces_it(live: Any, value: bytes) -> None:
    live.put("m", value)

    with pytest.raises(InvalidPointerError):
        live.read("m")
    with pytest.raises(InvalidPointerError):
        live.activate("m", "v1", 0, 0)
    assert live.activate("m", "v1", None, 0, floor_epoch=41).epoch == 42
    assert live.read("m").epoch == 42


def test_a_move_stores_what_the_change_makes_of_what_is_there(live: Any) -> None:
    live.activate("m", "v1", 0, 1000)

    armed = live.move("m", lambda present: present.with_activation("v2", 1, 1000, effective_from_ms=3000))
    off = live.move("m", lambda present: present.with_called_off(2, 2000))

    assert (armed.epoch, off.epoch) == (2, 3)
    assert live.read("m") == off


def test_a_change_that_is_refused_stores_nothing(live: Any) -> None:
    first = live.activate("m", "v1", 0, 1000)

    with pytest.raises(VersionNotFoundError):
        live.move("m", lambda present: present.with_rollback(None, 1, 2000))
    assert live.read("m") == first


def test_two_switches_at_once_cannot_both_win(real: StoredByHand, settings: RedisSettings, monkeypatch: Any) -> None:
    other = LiveVersions(settings)
    wrapped = Timeline.with_activation

    def overtaken(*arguments: Any, **options: Any) -> Timeline:
        monkeypatch.setattr(Timeline, "with_activation", wrapped)
        other.activate("m", "v9", 0, 0)
        return wrapped(*arguments, **options)

    monkeypatch.setattr(Timeline, "with_activation", overtaken)

    with pytest.raises(PointerConflictError, match="same moment"):
        real.activate("m", "v1", 0, 0)
    stored = real.read("m")
    assert stored is not None
    assert stored.latest is not None
    assert stored.latest.split == {"v9": 1}
    other.close()


@pytest.mark.parametrize("kind", ["list", "hash", "set"])
def test_a_key_of_another_type_is_a_typed_error(real: StoredByHand, client: Any, kind: str) -> None:
    key = real._key("m")
    {
        "list": lambda: client.rpush(key, "v1"),
        "hash": lambda: client.hset(key, "a", "b"),
        "set": lambda: client.sadd(key, "a"),
    }[kind]()

    with pytest.raises(InvalidPointerError, match=kind):
        real.read("m")
    assert real.activate("m", "v1", None, 0).epoch == 1


def test_a_huge_value_is_never_fetched(real: StoredByHand, client: Any) -> None:
    client.setrange(real._key("m"), 100_000_000, b"x")
    before = client.info("stats")["total_net_output_bytes"]

    with pytest.raises(InvalidPointerError, match="100000001 bytes"):
        real.read("m")
    assert client.info("stats")["total_net_output_bytes"] - before < 1_000_000


def test_an_activation_is_hinted_to_who_listens(real: StoredByHand) -> None:
    listener = real.hints("m")
    listener.wait(1.0)  # the subscription's own confirmation, which is no hint

    real.activate("m", "v1", 0, 0)

    assert listener.wait(5.0)
    assert not listener.wait(0.01)
    listener.close()


def test_a_server_that_does_not_answer_is_unavailable_and_says_no_secret(tmp_path: Any) -> None:
    live = LiveVersions(
        RedisSettings(url=SecretStr(f"unix://:s3cret-canary@{tmp_path}/none.sock"), timeout_seconds=0.5)
    )

    for call in (lambda: live.read("m"), lambda: live.activate("m", "v1", 0, 0), lambda: live.hints("m")):
        with pytest.raises(UnavailableError) as caught:
            call()
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "http://x", "nonsense"])
def test_a_url_that_cannot_work_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"redis\.url"):
        LiveVersions(RedisSettings(url=SecretStr(url))).read("m")


def every_subclass(root: type) -> Iterator[type]:
    for subclass in root.__subclasses__():
        yield subclass
        yield from every_subclass(subclass)


def test_every_error_of_the_client_is_translated(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (*every_subclass(redis.RedisError), ConnectionResetError, TimeoutError):
        if not kind.__module__.startswith("redis.") and kind.__module__ != "builtins":
            continue
        error = kind.__new__(kind)
        with pytest.raises((UnavailableError, PointerConflictError)), exclusively("overtaken"):
            raise error
