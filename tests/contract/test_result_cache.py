from collections.abc import Iterator
from typing import Any

import pytest
import redis
from pydantic import SecretStr

from model_store.redis_connection import translated
from schemas.errors import ConfigurationError, UnavailableError
from schemas.settings import CacheSettings, RedisSettings
from stream_workers.caching.answer_keys import frame_output
from stream_workers.result_cache import ResultCache
from tests.fakes.fake_result_cache import FakeResultCache

KEY, OTHER = b"k" * 64, b"o" * 64
MAX_OUTPUT_BYTES = 1024


class StoredByHand(ResultCache):
    """The real door, with a way for the test to put any value behind it."""

    def put(self, key: bytes, value: bytes) -> None:
        self._client().set(self._name(key), value)


@pytest.fixture
def real(settings: RedisSettings) -> Iterator[StoredByHand]:
    door = StoredByHand(settings, CacheSettings(max_output_bytes=MAX_OUTPUT_BYTES))
    yield door
    door.close()


@pytest.fixture(params=["fake", "real"])
def door(request: pytest.FixtureRequest) -> Any:
    return FakeResultCache(MAX_OUTPUT_BYTES) if request.param == "fake" else request.getfixturevalue("real")


def test_there_is_nothing_before_the_first_write(door: Any) -> None:
    assert door.read([KEY, OTHER]) == [None, None]
    assert door.refused == 0


def test_what_was_written_is_read_each_under_its_key(door: Any) -> None:
    door.write([(KEY, b"1"), (OTHER, b'{"a": [2]}')])
    assert door.read([OTHER, b"x" * 64, KEY]) == [b'{"a": [2]}', None, b"1"]
    assert door.refused == 0


@pytest.mark.parametrize(
    "value",
    [
        b"1",
        b"\x80\x04.",
        b"x" * 10_000,
        frame_output(OTHER, b"1"),
        frame_output(KEY, b"not json"),
        frame_output(KEY, b"1")[:-1],
        frame_output(KEY, b"1") + b" ",
        frame_output(KEY, b'"' + b"x" * MAX_OUTPUT_BYTES + b'"'),
    ],
)
def test_a_value_that_is_no_sound_entry_is_a_miss_and_counted(door: Any, value: bytes) -> None:
    door.put(KEY, value)
    door.write([(OTHER, b"2")])
    assert door.read([KEY, OTHER]) == [None, b"2"]
    assert door.refused == 1


@pytest.mark.parametrize("kind", ["list", "hash", "set"])
def test_a_key_of_another_type_is_a_miss_until_it_is_written_over(real: StoredByHand, client: Any, kind: str) -> None:
    name = real._name(KEY)
    {
        "list": lambda: client.rpush(name, "v1"),
        "hash": lambda: client.hset(name, "a", "b"),
        "set": lambda: client.sadd(name, "a"),
    }[kind]()
    assert real.read([KEY]) == [None]
    assert real.refused == 1
    real.write([(KEY, b"1")])
    assert real.read([KEY]) == [b"1"]


def test_a_huge_value_is_never_fetched(real: StoredByHand, client: Any) -> None:
    client.setrange(real._name(KEY), 100_000_000, b"x")
    before = client.info("stats")["total_net_output_bytes"]
    assert real.read([KEY]) == [None]
    assert client.info("stats")["total_net_output_bytes"] - before < 1_000_000


def test_an_entry_ends_with_its_time(settings: RedisSettings, client: Any) -> None:
    door = StoredByHand(settings, CacheSettings(ttl_seconds=77))
    door.write([(KEY, b"1")])
    assert 70 <= client.ttl(door._name(KEY)) <= 77
    door.close()


def test_another_namespace_has_answers_of_its_own(settings: RedisSettings, real: StoredByHand) -> None:
    real.write([(KEY, b"1")])
    other = ResultCache(settings, CacheSettings(namespace="after-the-fix"))
    assert other.read([KEY]) == [None]
    other.close()


def test_a_full_server_refuses_writes_and_they_are_counted(real: StoredByHand, client: Any) -> None:
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", "1")
    try:
        real.write([(KEY, b"1"), (OTHER, b"2")])
        assert real.refused == 2
        assert real.read([KEY]) == [None]
    finally:
        client.config_set("maxmemory", "0")


def test_a_server_that_does_not_answer_is_unavailable_and_says_no_secret(tmp_path: Any) -> None:
    url = SecretStr(f"unix://:s3cret-canary@{tmp_path}/none.sock")
    door = ResultCache(RedisSettings(url=url, timeout_seconds=0.5), CacheSettings())
    for call in (lambda: door.read([KEY]), lambda: door.write([(KEY, b"1")])):
        with pytest.raises(UnavailableError) as caught:
            call()
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "http://x", "nonsense"])
def test_a_url_that_cannot_work_is_a_configuration_error(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"redis\.url"):
        ResultCache(RedisSettings(url=SecretStr(url)), CacheSettings()).read([KEY])


def every_subclass(root: type) -> Iterator[type]:
    for subclass in root.__subclasses__():
        yield subclass
        yield from every_subclass(subclass)


def test_every_error_of_the_client_is_translated() -> None:
    kinds = [kind for kind in every_subclass(redis.RedisError) if kind.__module__.startswith("redis.")]
    for kind in (*kinds, ConnectionResetError, TimeoutError):
        error = kind.__new__(kind)
        with pytest.raises(UnavailableError), translated():
            raise error
