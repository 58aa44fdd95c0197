"""A frame-aware Kafka proxy: holds, drops, delays or resets chosen requests, to make rare network faults certain.

Clients reach it through a broker listener that advertises the proxy's port. It reads the first twelve bytes of each
request frame (length, API key, version, correlation id) and passes everything else on untouched.
"""

import asyncio
import contextlib
import struct
import threading
from collections import Counter
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.faults.request_faults import Action, Fault

_HEADER = struct.Struct(">ihhi")  # length, API key, API version, correlation id
_MAX_FRAME_BYTES = 256 << 20
_STOP_SECONDS = 5.0

Address = tuple[str, int]
Value = TypeVar("Value")


class KafkaProxy:
    """Listens on a free port of 127.0.0.1 from `start()` to `stop()`. Use it as a context manager.

    `requests` counts the frames seen by API key; `actions` counts what was done to them.
    """

    def __init__(self, broker: Address | None = None) -> None:
        self.broker = broker
        self.port = 0
        self.requests: Counter[int] = Counter()
        self.actions: Counter[Action] = Counter()
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread: threading.Thread | None = None
        self._server: asyncio.Server | None = None

    def start(self) -> Self:
        """Bind and serve. `port` is known afterwards; the broker may be named later, before the first client."""
        self._thread = threading.Thread(target=self._loop.run_forever, name="kafka-proxy", daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def stop(self) -> None:
        """Close the listener and every connection; held requests are forgotten."""
        if self._thread is None:
            return
        self._run(self._shut_down())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)
        self._loop.close()
        self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def hold(self, api_key: int, nth: int = 1, *, deliver_after: float | None = 3.0, cut: bool = True) -> Fault:
        """Keep the nth such request for `deliver_after` seconds (None: until `release()`), then deliver it alone.

        With `cut` the client's connection is closed at once, so it reconnects and tries again; without, the client gets
        no answer to this request and waits.
        """
        return self._arm(Fault(Action.HOLD, api_key, nth, seconds=deliver_after, cut=cut))

    def drop(self, api_key: int, nth: int | None = 1) -> Fault:
        """Swallow the nth such request, or every one when `nth` is None."""
        return self._arm(Fault(Action.DROP, api_key, nth))

    def delay(self, api_key: int, seconds: float, nth: int | None = None) -> Fault:
        """Deliver such requests `seconds` late."""
        return self._arm(Fault(Action.DELAY, api_key, nth, seconds=seconds))

    def reset(self, api_key: int, nth: int | None = 1) -> Fault:
        """Cut the client's connection in place of delivering the nth such request."""
        return self._arm(Fault(Action.RESET, api_key, nth, cut=True))

    def clear(self) -> None:
        """Disarm every fault. Requests already held are still delivered."""
        with self._lock:
            self._faults.clear()

    def _arm(self, fault: Fault) -> Fault:
        with self._lock:
            self._faults.append(fault)
        return fault

    def _pick(self, api_key: int) -> Fault | None:
        with self._lock:
            self.requests[api_key] += 1
            picking = [fault for fault in self._faults if fault.picks(api_key)]
            if picking:
                self.actions[picking[0].action] += 1
            return picking[0] if picking else None

    def _run(self, work: Coroutine[Any, Any, Value]) -> Value:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_STOP_SECONDS)

    async def _shut_down(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            broker_in, broker_out = await self._connect()
        except OSError:
            client_out.transport.abort()
            return
        answers = asyncio.create_task(_copy(broker_in, client_out))
        try:
            await self._pass_requests(client_in, broker_out)
        finally:
            answers.cancel()
            client_out.transport.abort()
            broker_out.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.broker is None:
            raise ConnectionRefusedError("the proxy has no broker yet")
        return await asyncio.open_connection(*self.broker)

    async def _pass_requests(self, client_in: asyncio.StreamReader, broker_out: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                header = await client_in.readexactly(_HEADER.size)
                length, api_key, _, _ = _HEADER.unpack(header)
                if not _HEADER.size - 4 <= length <= _MAX_FRAME_BYTES:
                    return
                frame = header + await client_in.readexactly(length + 4 - _HEADER.size)
                fault = self._pick(api_key)
                if fault is not None and not await self._strike(fault, frame):
                    if fault.cut:
                        return
                    continue
                broker_out.write(frame)
                await broker_out.drain()

    async def _strike(self, fault: Fault, frame: bytes) -> bool:
        """Do what the fault says; True when the frame must still be passed on."""
        fault.struck.set()
        if fault.action is Action.HOLD:
            task = asyncio.create_task(self._deliver(fault, frame))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return False
        if fault.action is Action.DELAY:
            await asyncio.sleep(fault.seconds or 0)
        fault.finished.set()
        return fault.action is Action.DELAY

    async def _deliver(self, fault: Fault, frame: bytes) -> None:
        await fault.wait_for_delivery()
        broker_in, broker_out = await self._connect()
        try:
            broker_out.write(frame)
            length = int.from_bytes(await broker_in.readexactly(4), "big")
            fault.response = await broker_in.readexactly(length)
        finally:
            fault.finished.set()
            broker_out.transport.abort()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Copy answers until the broker closes, then close the client's side too."""
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    target.transport.abort()
