"""The Redis door: one timeline per model, read within bounds and moved only by compare-and-set.

WATCH and MULTI do the compare-and-set, so scripting can stay switched off. The published hint carries nothing that is
trusted: whoever hears it reads the key. Every error of the client leaves here as UnavailableError. What connects and
translates serves whoever else speaks to Redis.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from model_store.timeline import Timeline
from model_store.timeline_codec import MAX_TIMELINE_BYTES, decode_timeline, encode_timeline
from schemas.errors import ConfigurationError, InvalidPointerError, PointerConflictError, UnavailableError, scrub
from schemas.names import check_name
from schemas.settings import RedisSettings


class LiveVersions:
    """Reads and moves the active versions. Connects on first use; one instance per thread."""

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self._connected: Any = None

    def read(self, model: str) -> Timeline | None:
        """Return the model's timeline, None when there is none.

        Raises InvalidPointerError for a value of the wrong type, size or form (never more than the bound is read),
        UnsafeNameError for the name and UnavailableError.
        """
        key = self._key(model)
        with _translated():
            return _read(self._client(), key)

    def activate(
        self, model: str, version: str, expected_epoch: int | None, now_ms: int, floor_epoch: int = 0
    ) -> Timeline:
        """Make `version` the active one from `now_ms` on, if the epoch still is `expected_epoch` (0 for none yet).

        With None the operator re-asserts: whatever is stored, sound or not, is replaced or followed. `floor_epoch` is
        the highest epoch that any worker is known to hold. Returns the new timeline; raises PointerConflictError when
        somebody else moved it, and as :meth:`read`.
        """
        key = self._key(model)
        with _translated(), self._client().pipeline() as pipe:
            pipe.watch(key)
            current = _read_or_replace(pipe, key, replace=expected_epoch is None)
            expected = current.epoch if expected_epoch is None else expected_epoch
            moved = current.with_activation(version, expected, now_ms, floor_epoch)
            pipe.multi()
            pipe.set(key, encode_timeline(moved))
            pipe.publish(self._channel(model), str(moved.epoch))
            pipe.execute()
        return moved

    def hints(self, model: str) -> "HintListener":
        """Subscribe to the hints of one model. Raises UnavailableError."""
        with _translated():
            listener = self._client().pubsub(ignore_subscribe_messages=True)
            listener.subscribe(self._channel(model))
            return HintListener(listener)

    def close(self) -> None:
        """Close the connections."""
        if self._connected is not None:
            self._connected.close()
            self._connected = None

    def _client(self) -> Any:
        if self._connected is None:
            if not self._settings.url.get_secret_value():
                raise ConfigurationError("redis.url is not set, and the active version is kept in Redis")
            self._connected = open_client(self._settings, self._settings.timeout_seconds, retries=1)
        return self._connected

    def _key(self, model: str) -> str:
        return f"{self._settings.prefix}:timeline:{check_name('model name', model)}"

    def _channel(self, model: str) -> str:
        return f"{self._settings.prefix}:hint:{check_name('model name', model)}"


class HintListener:
    """Hears that a pointer may have moved. Missing a hint costs a poll interval and nothing else."""

    def __init__(self, subscription: Any) -> None:
        self._subscription = subscription

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for a hint; True when one came. Raises UnavailableError."""
        with _translated():
            return self._subscription.get_message(timeout=timeout_seconds) is not None

    def close(self) -> None:
        """Stop listening."""
        self._subscription.close()


def _read(client: Any, key: str) -> Timeline | None:
    kind = client.type(key)
    if kind == b"none":
        return None
    if kind != b"string":
        raise InvalidPointerError(f"{key} is a {kind.decode(errors='replace')} and not a string")
    size = client.strlen(key)
    if size > MAX_TIMELINE_BYTES:
        raise InvalidPointerError(f"{key} has {size} bytes; at most {MAX_TIMELINE_BYTES} are read")
    try:
        # A bounded read all the same: the value may have grown since its size was asked.
        return decode_timeline(client.getrange(key, 0, MAX_TIMELINE_BYTES))
    except InvalidPointerError as error:
        raise InvalidPointerError(
            f"{key} in Redis is {error}; `headrace models activate --replace` puts it right"
        ) from None


def _read_or_replace(client: Any, key: str, *, replace: bool) -> Timeline:
    try:
        return _read(client, key) or Timeline()
    except InvalidPointerError:
        if replace:
            return Timeline()
        raise


@contextmanager
def _translated() -> Iterator[None]:
    """As :func:`translated`, and a lost race is a PointerConflictError."""
    with translated():
        try:
            yield
        except redis.WatchError:
            raise PointerConflictError("somebody else moved the active version at the same moment") from None


def open_client(settings: RedisSettings, timeout_seconds: float, retries: int) -> Any:
    """Make a client that connects on first use. Raises ConfigurationError for an address that cannot work."""
    try:
        return redis.Redis.from_url(
            settings.url.get_secret_value(),
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            retry=Retry(NoBackoff(), retries),
        )
    except ValueError:
        raise ConfigurationError("redis.url is not a redis:// or rediss:// address") from None


@contextmanager
def translated() -> Iterator[None]:
    """Turn every error of the client into UnavailableError, without its address or password."""
    try:
        yield
    except redis.RedisError as error:
        raise UnavailableError(f"Redis: {type(error).__name__}: {scrub(str(error), limit=200)}") from None
    except OSError as error:
        raise UnavailableError(f"Redis: {error.strerror or type(error).__name__}") from None
