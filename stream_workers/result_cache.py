"""The Redis door of the result cache: answers by key, each with a time to live. What is read is checked first.

Never more than the bound is fetched of a value, whatever lies under a key. Every error of the client leaves here as
UnavailableError.
"""

from collections.abc import Sequence
from typing import Any

from model_store.redis_connection import open_client, translated
from schemas.settings import CacheSettings, RedisSettings
from stream_workers.caching.answer_keys import FRAME_BYTES, frame_output, open_frame

MAX_TIMEOUT_SECONDS = 0.5
"""An answer that takes longer is of no use any more."""


class ResultCache:
    """Reads and writes answers. Connects on first use; one instance per thread."""

    def __init__(self, redis_settings: RedisSettings, cache: CacheSettings) -> None:
        self._redis = redis_settings
        self._ttl_seconds = cache.ttl_seconds
        self._max_output_bytes = cache.max_output_bytes
        self._prefix = f"{redis_settings.prefix}:answer:{cache.namespace}:"
        self._connected: Any = None
        self.refused = 0
        """Values that were no sound entry and writes that the server did not take, full as it may be."""

    def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the output under each key; None where there is none or what is there is not sound.

        Raises UnavailableError, and ConfigurationError for an address that cannot work.
        """
        with translated():
            pipe = self._client().pipeline(transaction=False)
            for key in keys:
                # One byte more than the bound, so that a value that is too long shows.
                pipe.getrange(self._name(key), 0, FRAME_BYTES + self._max_output_bytes)
            values = pipe.execute(raise_on_error=False)
        return [self._open(key, value) for key, value in zip(keys, values, strict=True)]

    def write(self, entries: Sequence[tuple[bytes, bytes]]) -> None:
        """Keep outputs by key for the time to live. Raises as :meth:`read`; a write that is not taken is counted."""
        with translated():
            pipe = self._client().pipeline(transaction=False)
            for key, output in entries:
                pipe.set(self._name(key), frame_output(key, output), ex=self._ttl_seconds)
            self.refused += sum(reply is not True for reply in pipe.execute(raise_on_error=False))

    def close(self) -> None:
        """Close the connection."""
        if self._connected is not None:
            self._connected.close()
            self._connected = None

    def _open(self, key: bytes, value: Any) -> bytes | None:
        # A key that is not there reads as an empty string, one of another type as an error.
        if value == b"":
            return None
        output = open_frame(key, value, self._max_output_bytes) if isinstance(value, bytes) else None
        self.refused += output is None
        return output

    def _name(self, key: bytes) -> str:
        return self._prefix + key.hex()

    def _client(self) -> Any:
        if self._connected is None:
            timeout = min(self._redis.timeout_seconds, MAX_TIMEOUT_SECONDS)
            self._connected = open_client(self._redis, timeout, retries=0)
        return self._connected
