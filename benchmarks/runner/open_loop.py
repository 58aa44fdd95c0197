"""An open loop: requests go out when they are due, whatever has been answered, and each answer is timed by a reader."""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Producer

from benchmarks.contestants.assignment import ID_HEADER, find_id
from benchmarks.runner.backlog import KEYS, Headers
from benchmarks.runner.processes import ContestantFailedError
from benchmarks.runner.watch import open_reader

_READ_SECONDS = 0.002
_WAIT_SECONDS = 0.02
_EXPIRED = b'"status":"expired"'
_HEAD_BYTES = 64


@dataclass
class Readable:
    """What the reader has seen. Written by its thread alone, in seconds of the monotonic clock."""

    at: dict[str, float] = field(default_factory=dict)
    """When the first answer of a request could be read."""
    expired: set[str] = field(default_factory=set)
    """Requests answered with an expiry."""


@dataclass(frozen=True)
class OpenLoop:
    """A sender and a reader of one contestant. Made by :func:`open_loop`."""

    producer: Producer
    payloads: Sequence[bytes]
    content_type: str
    readable: Readable
    check: Callable[[], None]

    def send(self, topic: str, due: Sequence[float], prefix: str, deadline_seconds: float = 0.0) -> dict[str, float]:
        """Send a request at each of the seconds `due`, from now; returns when each was due, by its id.

        A sender that is late sends at once, and the lateness counts as latency. Raises as `check`.
        """
        began = time.monotonic()
        offset = time.time() - began
        due_at: dict[str, float] = {}
        for number, seconds in enumerate(due):
            at = began + seconds
            if (left := at - time.monotonic()) > 0:
                self.producer.poll(0)
                time.sleep(left)
            request = f"{prefix}{number}"
            deadline_ms = int((at + deadline_seconds + offset) * 1000) if deadline_seconds else 0
            self._produce(topic, request, number, deadline_ms)
            due_at[request] = at
        self.producer.flush()
        self.check()
        return due_at

    def warm_up(self, topic: str, timeout_seconds: float, rounds: int = 3) -> None:
        """Send a few requests to every partition and wait until all are answered. Raises ContestantFailedError."""
        give_up_at = time.monotonic() + timeout_seconds
        for number in range(rounds):
            due_at = self.send(topic, [0.0] * KEYS, f"warm{number}-")
            while not self.wait(due_at, 0.5):
                self.check()
                if time.monotonic() > give_up_at:
                    raise ContestantFailedError("the first requests were not answered")

    def wait(self, requests: Collection[str], timeout_seconds: float) -> bool:
        """Wait until all `requests` are answered; False when time is up before."""
        give_up_at = time.monotonic() + timeout_seconds
        while not all(request in self.readable.at for request in requests):
            if time.monotonic() > give_up_at:
                return False
            time.sleep(_WAIT_SECONDS)
        return True

    def _produce(self, topic: str, request: str, number: int, deadline_ms: int) -> None:
        headers: Headers = [(ID_HEADER, request), ("content-type", self.content_type)]
        if deadline_ms:
            headers.append(("ce_deadline", str(deadline_ms)))
        payload = self.payloads[number % len(self.payloads)]
        self.producer.produce(topic, payload, str(number % KEYS), headers=headers)


@contextlib.contextmanager
def open_loop(
    bootstrap: str, results: str, payloads: Sequence[bytes], content_type: str, check: Callable[[], None]
) -> Iterator[OpenLoop]:
    """A sender, and a reader that reads `results` from now to the end of the block."""
    readable, stop = Readable(), threading.Event()
    thread = threading.Thread(target=_read, args=(bootstrap, results, readable, stop), daemon=True)
    thread.start()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "queue.buffering.max.kbytes": 512 << 10})
    try:
        yield OpenLoop(producer, payloads, content_type, readable, check)
    finally:
        stop.set()
        thread.join()


def _read(bootstrap: str, results: str, readable: Readable, stop: threading.Event) -> None:
    reader = open_reader(bootstrap, results)
    try:
        while not stop.is_set():
            for message in reader.consume(500, _READ_SECONDS):
                if message.error():
                    continue
                request = find_id(message.headers()).decode()
                readable.at.setdefault(request, time.monotonic())
                if _EXPIRED in (message.value() or b"")[:_HEAD_BYTES]:
                    readable.expired.add(request)
    finally:
        reader.close()
