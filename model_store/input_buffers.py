"""Memory for batch inputs that is allocated once and lent out again and again."""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

BUFFER_BYTES = 256 << 20
"""Default bound of the buffers of one model process together."""
_BOOKKEEPING_BYTES = 1024  # of a buffer: or a million kinds of a few bytes each would count as nothing

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Allocate = Callable[[Shape, np.dtype[Any]], Array]


@dataclass(slots=True)
class Buffer:
    """Room for the largest batch of one kind of item: `rows` is [largest batch, *item shape]."""

    rows: Array
    key: tuple[Shape, np.dtype[Any]]
    held_bytes: int


@dataclass(slots=True)
class _Kind:
    free: list[Buffer] = field(default_factory=list)
    made: int = 0


class InputBuffers:
    """Lends a buffer to each batch that is being prepared or run, so a buffer is never written while it is read.

    A buffer is lent until it is given back: with one batch that runs and one in preparation, there come to be two of a
    kind, used in turn. `allocate` takes the shape of a whole buffer and a dtype. Kinds that were used longest ago go
    when all buffers together would exceed `max_bytes`; one that does not fit even then is not made: shapes come from
    requests. May be used from two threads.
    """

    def __init__(self, max_rows: int, allocate: Allocate, max_bytes: int = BUFFER_BYTES) -> None:
        self.allocations = 0
        """Buffers made so far: constant in steady state."""
        self.held_bytes = 0
        """Of all buffers, lent or not, with their bookkeeping."""
        self._max_rows = max_rows
        self._allocate = allocate
        self._max_bytes = max_bytes
        self._kinds: OrderedDict[tuple[Shape, np.dtype[Any]], _Kind] = OrderedDict()
        self._lock = threading.Lock()

    def lend(self, shape: Shape, dtype: np.dtype[Any], count: int) -> Buffer | None:
        """Return a buffer for `count` items of this kind, or None when it is beyond the bounds."""
        if count > self._max_rows:
            return None
        key = (shape, dtype)
        with self._lock:
            kind = self._kinds.get(key)
            if kind is not None:
                self._kinds.move_to_end(key)
                if kind.free:
                    return kind.free.pop()
            return self._make(key)

    def give_back(self, buffer: Buffer) -> None:
        """End the loan."""
        with self._lock:
            self._kinds[buffer.key].free.append(buffer)

    def _make(self, key: tuple[Shape, np.dtype[Any]]) -> Buffer | None:
        shape, dtype = key
        size = self._max_rows * math.prod(shape) * dtype.itemsize + _BOOKKEEPING_BYTES
        if 2 * size > self._max_bytes or not self._make_room(size, key):
            return None
        buffer = Buffer(self._allocate((self._max_rows, *shape), dtype), key, size)
        self._kinds.setdefault(key, _Kind()).made += 1
        self.allocations += 1
        self.held_bytes += size
        return buffer

    def _make_room(self, size: int, wanted: tuple[Shape, np.dtype[Any]]) -> bool:
        """Drop what was used longest ago and is not lent, until `size` more bytes fit."""
        for key in list(self._kinds):
            if self.held_bytes + size <= self._max_bytes:
                break
            kind = self._kinds[key]
            self.held_bytes -= sum(buffer.held_bytes for buffer in kind.free)
            kind.made -= len(kind.free)
            kind.free.clear()
            if not kind.made and key != wanted:
                del self._kinds[key]
        return self.held_bytes + size <= self._max_bytes
