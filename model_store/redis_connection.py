"""What every door to Redis shares: connecting, translating the client's errors, and reads that are bounded.

A WATCH that was overtaken leaves as PointerConflictError, every other error of the client as UnavailableError.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from schemas.errors import ConfigurationError, InvalidPointerError, PointerConflictError, UnavailableError, scrub
from schemas.names import check_name
from schemas.settings import RedisSettings


class RedisConnection:
    """One client of the control plane. Connects on first use; one instance per thread."""

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self._connected: Any = None

    @property
    def client(self) -> Any:
        """The client. Raises ConfigurationError when there is no address, or one that cannot work."""
        if self._connected is None:
            if not self._settings.url.get_secret_value():
                raise ConfigurationError("redis.url is not set, and the active version is kept in Redis")
            self._connected = open_client(self._settings, self._settings.timeout_seconds, retries=1)
        return self._connected

    def key(self, kind: str, model: str) -> str:
        """Return the key of one kind of value for a model. Raises UnsafeNameError."""
        return f"{self._settings.prefix}:{kind}:{check_name('model name', model)}"

    def hint_channel(self, model: str) -> str:
        """Return the channel on which every change of a model's control plane is hinted. Raises UnsafeNameError."""
        return self.key("hint", model)

    def close(self) -> None:
        """Close the connections."""
        if self._connected is not None:
            self._connected.close()
            self._connected = None


def read_bounded(client: Any, key: str, max_bytes: int) -> bytes | None:
    """Return the string under `key`, None when there is none; never fetches more than one byte over `max_bytes`.

    Raises InvalidPointerError for a value of another type or size.
    """
    try:
        # One question in the usual case: workers count what they know as old as it.
        value: bytes = client.getrange(key, 0, max_bytes)
    except redis.ResponseError as error:
        if not str(error).startswith("WRONGTYPE"):
            raise
        kind = client.type(key).decode(errors="replace")
        raise InvalidPointerError(f"{key} is a {kind} and not a string") from None
    if len(value) > max_bytes:
        raise InvalidPointerError(f"{key} has {client.strlen(key)} bytes; at most {max_bytes} are read")
    # A key that is missing reads like an empty one.
    return value if value or (client.exists(key) and not client.strlen(key)) else None


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
def exclusively(lost: str) -> Iterator[None]:
    """As :func:`translated`, for a compare-and-set: one that was overtaken is a PointerConflictError saying `lost`."""
    with translated():
        try:
            yield
        except redis.WatchError:
            raise PointerConflictError(lost) from None


@contextmanager
def translated() -> Iterator[None]:
    """Turn every error of the client into UnavailableError, without its address or password."""
    try:
        yield
    except redis.RedisError as error:
        raise UnavailableError(f"Redis: {type(error).__name__}: {scrub(str(error), limit=200)}") from None
    except OSError as error:
        raise UnavailableError(f"Redis: {error.strerror or type(error).__name__}") from None
