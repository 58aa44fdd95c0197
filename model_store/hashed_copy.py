"""Copying a file while hashing it: the hash runs beside the reading and writing, so the disk alone is the limit."""

import hashlib
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO

_CHUNK_BYTES = 4 << 20
_MOST_WAITING = 4


def copy_hashing(reader: BinaryIO, writer: BinaryIO, size: int, progress: Callable[[int], None]) -> str | None:
    """Copy exactly `size` bytes and return their SHA-256 in hex; None when the source is shorter or longer.

    What was written is on disk on return. Holds at most five chunks of 4 MiB. Raises what reading and writing raise.
    """
    digest, left = hashlib.sha256(), size
    waiting: deque[Future[None]] = deque()
    with ThreadPoolExecutor(1, thread_name_prefix="sha256") as pool:
        while left and (chunk := reader.read(min(_CHUNK_BYTES, left))):
            waiting.append(pool.submit(digest.update, chunk))
            writer.write(chunk)
            left -= len(chunk)
            if len(waiting) > _MOST_WAITING:
                waiting.popleft().result()
            progress(len(chunk))
    if left or reader.read(1):
        return None
    writer.flush()
    os.fsync(writer.fileno())
    return digest.hexdigest()
