"""The channel between the supervisor and one child: messages both ways, file descriptors with them, never blocking."""

import contextlib
import os
import selectors
import socket
from collections import deque
from collections.abc import Sequence
from typing import Generic

import msgspec

from stream_workers.links.framing import MAX_CONTROL_BYTES, READ_BYTES, FrameReader, LinkClosedError, frame
from stream_workers.links.messages import DESCRIPTORS, Message, MessageType, decode, encode

_MAX_DESCRIPTORS = 8


class ControlChannel(Generic[MessageType]):
    """One end of a Unix stream socket pair. What arrives is decoded by `decoder`; sending queues what does not fit."""

    def __init__(self, sock: socket.socket, decoder: msgspec.msgpack.Decoder[MessageType]) -> None:
        self._socket = sock
        self._decoder = decoder
        self._reader = FrameReader(MAX_CONTROL_BYTES)
        self._descriptors: deque[int] = deque()
        self._unsent: deque[tuple[memoryview, Sequence[int]]] = deque()

    @classmethod
    def adopt(cls, descriptor: int, decoder: msgspec.msgpack.Decoder[MessageType]) -> "ControlChannel[MessageType]":
        """Take over an inherited descriptor; it is not passed on to children."""
        os.set_inheritable(descriptor, False)
        sock = socket.socket(fileno=descriptor)
        sock.setblocking(False)
        return cls(sock, decoder)

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """True while messages wait for the peer to read: call `flush` when the channel is writable."""
        return bool(self._unsent)

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send or queue a message. The descriptors become the channel's: it closes them once they are sent.

        A peer that is gone is not an error here: `receive` says so.
        """
        self._unsent.append((memoryview(frame(encode(message), MAX_CONTROL_BYTES)), descriptors))
        self.flush()

    def flush(self) -> None:
        """Send what is queued, as far as the peer takes it."""
        while self._unsent:
            data, descriptors = self._unsent[0]
            try:
                sent = socket.send_fds(self._socket, [data], descriptors) if descriptors else self._socket.send(data)
            except BlockingIOError:
                return
            except OSError:
                self._drop_unsent()
                return
            # Descriptors travel with the first byte, so a rest goes without.
            _close_all(descriptors)
            self._unsent.popleft()
            if sent < len(data):
                self._unsent.appendleft((data[sent:], ()))

    def receive(self) -> list[tuple[MessageType, list[int]]]:
        """Return what has arrived, each message with its descriptors, which are the caller's to close.

        Raises LinkClosedError when the peer is gone and everything it sent was returned, FrameError for a broken frame.
        """
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, READ_BYTES, _MAX_DESCRIPTORS)
        except BlockingIOError:
            return []
        except OSError as error:
            raise LinkClosedError(f"control channel: {error.strerror}") from error
        self._descriptors.extend(descriptors)
        if not data:
            raise LinkClosedError("control channel: the peer closed it")
        messages = [decode(self._decoder, body) for body in self._reader.feed(data)]
        return [(message, self._take_descriptors(message)) for message in messages]

    def wait(self, timeout_seconds: float) -> bool:
        """Block until something can be received, at most so long; True when it can."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            return bool(selector.select(timeout_seconds))

    def close(self) -> None:
        """Close this end, with all descriptors that were not taken or sent."""
        self._drop_unsent()
        _close_all(self._descriptors)
        self._descriptors.clear()
        self._socket.close()

    def _take_descriptors(self, message: MessageType) -> list[int]:
        wanted = DESCRIPTORS.get(type(message), 0)  # type: ignore[arg-type]  # the decoder yields messages only
        if wanted > len(self._descriptors):
            raise LinkClosedError("control channel: descriptors were lost, most likely at the limit of open files")
        return [self._descriptors.popleft() for _ in range(wanted)]

    def _drop_unsent(self) -> None:
        for _, descriptors in self._unsent:
            _close_all(descriptors)
        self._unsent.clear()


def make_pair() -> tuple[socket.socket, socket.socket]:
    """Make a connected pair of non-blocking sockets that no child inherits by accident."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.setblocking(False)
    theirs.setblocking(False)
    return ours, theirs


def _close_all(descriptors: Sequence[int] | deque[int]) -> None:
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
