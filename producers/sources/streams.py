"""Many streams at once, each independent: one that breaks is reported and the others go on."""

import itertools
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

from producers.sources.item import Item, ItemError, Source
from producers.sources.pacing import Pace
from schemas.errors import InvalidRecordError, PipelineError

Send = Callable[[str, Item], None]
"""Publishes one item under a stream's key. May raise: InvalidRecordError costs the item, all else ends the stream."""


@dataclass
class StreamReport:
    """How one stream fares; read it at any time."""

    stream_id: str
    sent: int = 0
    faulty: int = 0
    """Items that could not be read or were refused before sending."""
    last_fault: str = ""
    ended: bool = False
    broken: str = ""
    """Why the stream ended before its source did; empty when it did not."""

    def record_fault(self, fault: str) -> None:
        """Count an item that was not sent."""
        self.faulty += 1
        self.last_fault = fault


def name_streams(name: str, count: int) -> list[str]:
    """Name `count` streams of one source; a single one keeps the source's own name."""
    return [name] if count == 1 else [f"{name}-{number}" for number in range(count)]


class StreamRunner:
    """Drives each source in a thread of its own until it ends, `limit` items were read, or `stop` is called."""

    def __init__(
        self,
        sources: Mapping[str, Callable[[], Source]],
        send: Send,
        *,
        fps: float | None = None,
        limit: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = sources
        self._send = send
        self._fps = fps
        self._limit = limit
        self._clock = clock
        self._stopped = threading.Event()
        self.reports = [StreamReport(stream_id) for stream_id in sources]

    def stop(self) -> None:
        """End every stream after its current item."""
        self._stopped.set()

    def run(self, on_tick: Callable[[], None] | None = None, *, tick_seconds: float = 0.5) -> list[StreamReport]:
        """Run all streams to their end; `on_tick` is called in between, from this thread. Interrupting stops them."""
        with ThreadPoolExecutor(max_workers=max(1, len(self.reports)), thread_name_prefix="stream") as pool:
            futures = {report.stream_id: pool.submit(self._drive, report) for report in self.reports}
            try:
                while wait(futures.values(), timeout=tick_seconds).not_done:
                    if on_tick is not None:
                        on_tick()
            finally:
                self.stop()
        for report in self.reports:
            error = futures[report.stream_id].exception()
            if error is not None:
                report.broken = f"{type(error).__name__}: {error}"
            report.ended = True
        return self.reports

    def _drive(self, report: StreamReport) -> None:
        pace = Pace(self._fps)
        for entry in itertools.islice(self._sources[report.stream_id](), self._limit):
            if isinstance(entry, ItemError):
                report.record_fault(f"{entry.label}: {entry.message}")
                if entry.final:
                    report.broken = entry.message
                continue
            delay = pace.delay(self._clock())
            if (delay and self._stopped.wait(delay)) or self._stopped.is_set():
                return
            try:
                self._send(report.stream_id, entry)
            except InvalidRecordError as error:
                report.record_fault(f"{entry.label}: {error}")
            except PipelineError as error:
                report.broken = str(error)
                return
            else:
                report.sent += 1
        report.ended = True
