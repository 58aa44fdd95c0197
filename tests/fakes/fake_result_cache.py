"""The answers of the Redis door in a dict: what the door promises, without Redis."""

from collections.abc import Sequence

from schemas.errors import UnavailableError
from stream_workers.caching.answer_keys import frame_output, open_frame


class FakeResultCache:
    """Passes the same tests as :class:`stream_workers.result_cache.ResultCache`. `values` holds the stored bytes."""

    def __init__(self, max_output_bytes: int = 64 * 1024) -> None:
        self.values: dict[bytes, bytes] = {}
        self.refused = 0
        self.is_down = False
        self.is_closed = False
        self._max_output_bytes = max_output_bytes

    def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        self._check()
        return [self._open(key) for key in keys]

    def write(self, entries: Sequence[tuple[bytes, bytes]]) -> None:
        self._check()
        self.values.update((key, frame_output(key, output)) for key, output in entries)

    def put(self, key: bytes, value: bytes) -> None:
        self.values[key] = value

    def close(self) -> None:
        self.is_closed = True

    def _check(self) -> None:
        if self.is_down:
            raise UnavailableError("down")

    def _open(self, key: bytes) -> bytes | None:
        if not self.values.get(key):
            return None
        output = open_frame(key, self.values[key], self._max_output_bytes)
        self.refused += output is None
        return output
