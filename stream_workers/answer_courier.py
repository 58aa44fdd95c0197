"""Carries answers to and from a store outside, on a thread of its own: the worker's loop never waits for that store.

Every queue is bounded. What does not fit, does not come in time or goes wrong is a miss and counted, and after an error
the store is left alone for a while.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import structlog

from schemas.errors import PipelineError

BATCH = 64
"""Most keys read, and most answers written, at once."""
MAX_OPEN_QUESTIONS = 4096
MAX_WAITING_BYTES = 8 << 20
REST_SECONDS = 1.0
"""How long nothing is asked or written after an error."""

_log = structlog.get_logger("cache")


class AnswerDoor(Protocol):
    """The store outside; see :class:`stream_workers.result_cache.ResultCache`. Raises PipelineError."""

    refused: int
    """Values that were no sound entry, and writes that were not taken."""

    def read(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the output under each key, None where there is none."""

    def write(self, entries: Sequence[tuple[bytes, bytes]]) -> None:
        """Keep outputs by key."""

    def close(self) -> None:
        """Let the connection go."""


class AnswerCourier:
    """See :class:`stream_workers.answer_cache.RemoteAnswers`. The thread starts with the first question or answer."""

    def __init__(self, connect: Callable[[], AnswerDoor], clock: Callable[[], float] = time.monotonic) -> None:
        """`connect` is called on the thread: importing a client may take long, too."""
        self._connect = connect
        self._clock = clock
        self._door: AnswerDoor | None = None
        self._changed = threading.Condition()
        self._questions: deque[bytes] = deque()
        self._answers: deque[tuple[bytes, bytes]] = deque()
        self._answer_bytes = 0
        self._replies: list[tuple[bytes, bytes | None]] = []
        self._open = 0
        """Questions asked and not yet taken back with their replies."""
        self._faults: Counter[str] = Counter()
        self._rests_until = float("-inf")
        self._thread: threading.Thread | None = None
        self._closing = False

    def ask(self, keys: Sequence[bytes]) -> bool:
        """Have the keys read; False when the store rests after an error or too much is open."""
        with self._changed:
            if self._clock() < self._rests_until:
                return False
            if self._open + len(keys) > MAX_OPEN_QUESTIONS:
                self._faults["busy"] += 1
                return False
            self._questions.extend(keys)
            self._open += len(keys)
            self._wake()
        return True

    def put(self, key: bytes, output: bytes) -> None:
        """Have an output written; it is dropped while the store rests or too much waits."""
        with self._changed:
            if self._clock() < self._rests_until:
                return
            if self._answer_bytes + len(output) > MAX_WAITING_BYTES:
                self._faults["busy"] += 1
                return
            self._answers.append((key, output))
            self._answer_bytes += len(output)
            self._wake()

    def take_replies(self) -> list[tuple[bytes, bytes | None]]:
        """Return the replies that have come since the last call."""
        with self._changed:
            replies, self._replies = self._replies, []
            self._open -= len(replies)
        return replies

    def take_faults(self) -> Mapping[str, int]:
        """Return the faults since the last call by reason: `busy`, `unavailable` or `refused`."""
        if not self._faults:
            return {}
        with self._changed:
            faults, self._faults = self._faults, Counter()
        return faults

    def close(self) -> None:
        """End the thread and let the connection go."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="answers", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._questions or self._answers or self._closing)
                if self._closing:
                    break
                keys = [self._questions.popleft() for _ in range(min(BATCH, len(self._questions)))]
                entries = [self._answers.popleft() for _ in range(min(BATCH, len(self._answers)))] if not keys else []
                self._answer_bytes -= sum(len(output) for _, output in entries)
            self._carry(keys, entries)
        if self._door is not None:
            self._door.close()

    def _carry(self, keys: Sequence[bytes], entries: Sequence[tuple[bytes, bytes]]) -> None:
        """Read or write one batch. Questions go before answers: somebody waits for them."""
        outputs: Sequence[bytes | None] = [None] * len(keys)
        refused, failed = 0, False
        try:
            door = self._door = self._door or self._connect()
            before = door.refused
            if keys:
                outputs = door.read(keys)
            if entries:
                door.write(entries)
            refused = door.refused - before
        except PipelineError as error:
            _log.warning("cached answers cannot be had", reason=str(error))
            failed = True
        with self._changed:
            self._replies += zip(keys, outputs, strict=True)
            if refused:
                self._faults["refused"] += refused
            if failed:
                self._faults["unavailable"] += 1
                self._rests_until = self._clock() + REST_SECONDS
