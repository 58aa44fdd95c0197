"""One model process: loads one version, then answers one member's batches until it is ended. No Kafka, no Redis here.

`python -m stream_workers.pipeline.model_process DESCRIPTOR PARENT`, started by the supervisor only.
"""

import os
import selectors
import signal
import socket
import sys
import time
import traceback

from schemas.errors import ConfigurationError, ModelStoreError, PipelineError, scrub
from stream_workers.links.control_channel import ControlChannel
from stream_workers.links.framing import MAX_DATA_BYTES, READ_BYTES, FrameError, FrameReader, LinkClosedError, frame
from stream_workers.links.input_ring import InputRing
from stream_workers.links.messages import (
    Loaded,
    LoadFailed,
    LoadOrder,
    Message,
    OpenSession,
    Ready,
    Run,
    ToModel,
    decode,
    encode,
    run_decoder,
    to_model_decoder,
)
from stream_workers.links.parent_death import die_with_parent
from stream_workers.pipeline.batch_runner import BatchRunner
from stream_workers.pipeline.look_ahead import LookAhead
from stream_workers.pipeline.model_loading import WarmModel, decode_limits, load_warm
from stream_workers.pipeline.order_queue import OrderQueue

NICENESS = 5
"""Below the member: when cores are short, what loses is a batch's time and not the member's polls and heartbeats."""
SHADOW_NICENESS = 19
"""The lowest there is: beside a process of NICENESS that wants the same core, a shadow gets a twentieth of it."""


class Session:
    """One member's data socket. Sending waits for the member; a member that is gone ends the session, nothing else."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(True)
        self._reader = FrameReader(MAX_DATA_BYTES)
        self.orders = OrderQueue()

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    def receive(self) -> None:
        """Take in the batches that have arrived. Raises LinkClosedError or FrameError."""
        try:
            data = self._socket.recv(READ_BYTES)
        except OSError as error:
            raise LinkClosedError(f"data socket: {error.strerror}") from error
        if not data:
            raise LinkClosedError("data socket: the member closed it")
        for body in self._reader.feed(data):
            self.orders.add(decode(run_decoder, body))

    def send(self, message: Message) -> None:
        """Send one answer. Raises LinkClosedError."""
        try:
            self._socket.sendall(frame(encode(message), MAX_DATA_BYTES))
        except OSError as error:
            raise LinkClosedError(f"data socket: {error.strerror}") from error

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class ModelServer:
    """Answers one session at a time. A new one ends the one before it, its unsent answers included.

    With `overlap`, the next batch is prepared while one runs.
    """

    def __init__(
        self, channel: ControlChannel[ToModel], ready: Ready, ring: InputRing, runner: BatchRunner, *, overlap: bool
    ) -> None:
        self._channel = channel
        self._ready = ready
        self._ring = ring
        self._runner = runner
        self._ahead = LookAhead(runner, ring) if overlap else None
        self._session: Session | None = None
        self._selector = selectors.DefaultSelector()

    def serve(self) -> None:
        """Serve until the supervisor closes the control channel: that raises LinkClosedError."""
        self._ring.reset()
        self._selector.register(self._channel, selectors.EVENT_READ)
        while True:
            busy = self._session is not None and len(self._session.orders) > 0
            ready = {key.fileobj for key, _ in self._selector.select(0 if busy else None)}
            if self._channel in ready:
                self._take_orders()
            elif self._session is not None:
                # One batch a turn: what has come in the meantime may be more urgent than what waits.
                self._answer(self._session, can_read=self._session in ready)

    def _take_orders(self) -> None:
        for message, descriptors in self._channel.receive():
            if isinstance(message, OpenSession):
                self._close_session()
                self._open_session(Session(descriptors[0]))

    def _open_session(self, session: Session) -> None:
        self._ring.reset()
        self._session = session
        self._selector.register(session, selectors.EVENT_READ)
        try:
            # Until the member reads this, it writes to no slot: an old batch may have been reading one till now.
            session.send(self._ready)
        except LinkClosedError:
            self._close_session()

    def _answer(self, session: Session, *, can_read: bool) -> None:
        try:
            if can_read:
                session.receive()
            if session.orders:
                self._run(session, session.orders.take())
        except (LinkClosedError, FrameError):
            self._close_session()

    def _run(self, session: Session, order: Run) -> None:
        if self._ahead is None or order.isolated:
            if self._ahead is not None:
                self._ahead.wait()  # nothing may happen beside an isolated order
            for message in self._runner.run(order):
                session.send(message)
            return
        prepared = self._ahead.get_ready(order)
        with self._ahead.beside(session):
            for message in self._runner.finish(prepared):
                session.send(message)

    def _close_session(self) -> None:
        if self._ahead is not None:
            self._ahead.abandon()  # its payloads lie in a slot that the next session may write to
        if self._session is not None:
            self._selector.unregister(self._session)
            self._session.close()
            self._session = None


def main(arguments: list[str]) -> int:
    """Load, say so, and serve until the supervisor lets go."""
    descriptor, parent = (int(argument) for argument in arguments)
    die_with_parent(parent)
    # The supervisor decides when a model ends; whoever sends this by hand means the whole worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    channel = ControlChannel.adopt(descriptor, to_model_decoder)
    try:
        order, ring_descriptor = _await_order(channel)
        if order.is_shadow:
            os.nice(SHADOW_NICENESS - NICENESS)
        ring = InputRing(ring_descriptor, order.slots, order.slot_bytes)
        warm = _load(channel, order)
        if warm is None:
            return 1
        ready = Ready(order.version, warm.answer_identity, warm.precision)
        runner = BatchRunner(warm.model, ring, decode_limits(order))
        ModelServer(channel, ready, ring, runner, overlap=order.decode_threads > 0).serve()
    except LinkClosedError:
        pass
    return 0


def _await_order(channel: ControlChannel[ToModel]) -> tuple[LoadOrder, int]:
    while True:
        channel.wait(60.0)
        for message, descriptors in channel.receive():
            if isinstance(message, LoadOrder):
                return message, descriptors[0]


def _load(channel: ControlChannel[ToModel], order: LoadOrder) -> WarmModel | None:
    began = time.monotonic()
    try:
        warm = load_warm(order)
    except BaseException as error:  # noqa: BLE001 - the store, the loader and user code: all of it is "cannot load"
        permanent = isinstance(error, ModelStoreError | ConfigurationError)
        if not isinstance(error, PipelineError):
            traceback.print_exc()  # of user code, for the person who wrote it
        channel.send(LoadFailed(type(error).__name__, scrub(str(error)), permanent))
        return None
    channel.send(Loaded(time.monotonic() - began, warm.warmed))
    return warm


if __name__ == "__main__":
    # Not sys.exit: threads that user code left behind must not keep a process that is to end.
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
