"""While one batch runs in the main thread, the most urgent one that waits is prepared by another."""

import contextlib
import selectors
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from stream_workers.links.input_ring import IDLE, InputRing
from stream_workers.links.messages import Run
from stream_workers.pipeline.batch_runner import BatchRunner, PreparedOrder


class Orders(Protocol):
    """Where orders come from; see :class:`stream_workers.pipeline.model_process.Session`."""

    def fileno(self) -> int:
        """For selectors."""

    @property
    def first_order(self) -> Run | None:
        """The order to begin with, None when none waits."""

    def take_order(self) -> Run:
        """Return that order: it waits no longer."""

    def receive(self) -> None:
        """Take in what has arrived. Raises LinkClosedError or FrameError."""


class LookAhead:
    """Prepares at most one order ahead.

    Orders belong to one thread at a time: to the one that prepares from entering `beside` until it has found an order
    or the block ends, then to the caller again. An order that asks for isolation is left where it is, since nothing may
    happen beside it. In the ring an order in preparation is named beside the one that runs, so both are suspect when
    the process ends.
    """

    def __init__(self, runner: BatchRunner, ring: InputRing) -> None:
        self._runner = runner
        self._ring = ring
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="prepare")
        self._bell, self._button = socket.socketpair()
        self._found: Run | None = None
        self._prepared: Future[PreparedOrder | None] | None = None

    @property
    def found(self) -> Run | None:
        """The order that is prepared or being prepared."""
        return self._found

    @contextlib.contextmanager
    def beside(self, orders: Orders) -> Iterator[None]:
        """Look for an order and prepare it while the block runs, unless one is ready already.

        Raises LinkClosedError or FrameError after the block when they were met while looking.
        """
        if self._found is not None:
            yield
            return
        looked: Future[Run | None] = Future()
        self._prepared = self._thread.submit(self._look_and_prepare, orders, looked)
        try:
            yield
        finally:
            self._button.send(b"!")
            try:
                self._found = looked.result()
            finally:
                self._bell.recv(1)

    def take(self) -> PreparedOrder:
        """Wait until the order that was found is ready and return it."""
        prepared = self.wait()
        if prepared is None:
            raise ValueError("no order was found: nothing is prepared")
        self._found = self._prepared = None
        return prepared

    def wait(self) -> PreparedOrder | None:
        """Wait until nothing is being prepared; returns the order that is ready, if there is one."""
        return self._prepared.result() if self._found is not None and self._prepared is not None else None

    def abandon(self) -> None:
        """Wait for the thread, which may be reading a slot, and drop what it has prepared."""
        prepared = self.wait()
        if prepared is not None:
            self._runner.discard(prepared)
        self._found = self._prepared = None

    def _look_and_prepare(self, orders: Orders, looked: "Future[Run | None]") -> PreparedOrder | None:
        try:
            order = self._look(orders)
        except BaseException as error:  # noqa: BLE001 - the caller's, who owns the orders again
            looked.set_exception(error)
            return None
        if order is None:
            looked.set_result(None)
            return None
        self._ring.prepare(order.batch_id)
        looked.set_result(order)
        try:
            return self._runner.prepare(order, self._note_step)
        finally:
            self._ring.prepare(IDLE)

    def _look(self, orders: Orders) -> Run | None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell, selectors.EVENT_READ)
            selector.register(orders, selectors.EVENT_READ)
            while (first := orders.first_order) is None:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._bell in ready:
                    return None
                orders.receive()
        return None if first.isolated else orders.take_order()

    def _note_step(self, _: int) -> None:
        self._ring.touch_preparing()
