"""While one batch runs in the main thread, the one that is to follow is prepared by another."""

import contextlib
import selectors
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from stream_workers.links.input_ring import IDLE, InputRing
from stream_workers.links.messages import Run
from stream_workers.pipeline.batch_runner import BatchRunner, PreparedOrder
from stream_workers.pipeline.order_queue import OrderQueue


class OrderSource(Protocol):
    """Where orders come from; see :class:`stream_workers.pipeline.model_process.Session`."""

    orders: OrderQueue

    def fileno(self) -> int:
        """For selectors."""

    def receive(self) -> None:
        """Take in what has arrived. Raises LinkClosedError or FrameError."""


class LookAhead:
    """Prepares at most one order ahead, which stays in the queue: what is more urgent may still be taken before it.

    A source belongs to one thread at a time: to the one that prepares from entering `beside` until it has found an
    order or the block ends, then to the caller again. An order that asks for isolation is never prepared ahead, since
    nothing may happen beside it. In the ring an order in preparation is named beside the one that runs, so both are
    suspect when the process ends. Preparing itself never happens twice at once.
    """

    def __init__(self, runner: BatchRunner, ring: InputRing) -> None:
        self._runner = runner
        self._ring = ring
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prepare")
        self._bell, self._button = socket.socketpair()
        self._found: Run | None = None
        self._prepared: Future[PreparedOrder] | None = None

    def get_ready(self, order: Run) -> PreparedOrder:
        """Return the order prepared: ahead, when it was the one that was found, or now."""
        self.wait()
        if self._found is order and self._prepared is not None:
            prepared = self._prepared.result()
            self._found = self._prepared = None
            return prepared
        self._ring.begin(order.batch_id)
        return self._runner.prepare(order, self._ring.touch)

    def wait(self) -> None:
        """Wait until nothing is being prepared."""
        if self._prepared is not None:
            self._prepared.result()

    def abandon(self) -> None:
        """Wait for the thread, which may be reading a slot, and drop what it has prepared."""
        if self._prepared is not None:
            self._runner.discard(self._prepared.result())
        self._found = self._prepared = None

    @contextlib.contextmanager
    def beside(self, source: OrderSource) -> Iterator[None]:
        """Look for an order and prepare it while the block runs, unless one is ready already.

        Raises LinkClosedError or FrameError after the block when they were met while looking.
        """
        if self._found is not None:
            yield
            return
        found: Future[Run | None] = Future()
        prepared = self._thread.submit(self._look_and_prepare, source, found)
        try:
            yield
        finally:
            self._button.send(b"!")
            try:
                self._found = found.result()
                self._prepared = prepared if self._found is not None else None  # type: ignore[assignment]  # then it is
            finally:
                self._bell.recv(1)

    def _look_and_prepare(self, source: OrderSource, found: "Future[Run | None]") -> PreparedOrder | None:
        try:
            order = self._look(source)
        except BaseException as error:  # noqa: BLE001 - the caller's, who owns the source again
            found.set_exception(error)
            return None
        if order is None:
            found.set_result(None)
            return None
        self._ring.prepare(order.batch_id)
        found.set_result(order)
        try:
            return self._runner.prepare(order, self._note_step)
        finally:
            self._ring.prepare(IDLE)

    def _look(self, source: OrderSource) -> Run | None:
        """Wait for an order; None when the block ended first or the order asks for isolation."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell, selectors.EVENT_READ)
            selector.register(source, selectors.EVENT_READ)
            while (first := source.orders.first()) is None:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._bell in ready:
                    return None
                source.receive()
        return None if first.isolated else first

    def _note_step(self, _: int) -> None:
        self._ring.touch_preparing()
