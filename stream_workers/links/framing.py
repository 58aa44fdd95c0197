"""Frames on a byte stream: a 4-byte little-endian length, then one msgpack message. Nothing is allocated on trust."""

import struct

from schemas.errors import PipelineError

MAX_CONTROL_BYTES = 16 << 20
MAX_DATA_BYTES = 1 << 30
READ_BYTES = 256 * 1024
_LENGTH = struct.Struct("<I")
HEADER_BYTES = _LENGTH.size


class FrameError(PipelineError):
    """The peer sent what cannot be a frame or a message: the link is dropped."""

    code = "frame"


class LinkClosedError(PipelineError):
    """The peer closed its end or died."""

    code = "link_closed"


def frame(body: bytes, max_bytes: int) -> bytes:
    """Put the length before a message. Raises FrameError when it is longer than the peer would take."""
    if len(body) > max_bytes:
        raise FrameError(f"a message of {len(body)} bytes: at most {max_bytes} are allowed")
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Cuts received bytes into message bodies. One per stream."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take what was received and return the bodies that are whole now. Raises FrameError above the limit."""
        if not self._buffer:
            # The usual case: whole frames in one read, each body copied once.
            bodies, rest = self._cut(data)
            self._buffer += rest
            return bodies
        self._buffer += data
        if len(self._buffer) < self._wanted():
            return []
        bodies, rest = self._cut(bytes(self._buffer))
        self._buffer = bytearray(rest)
        return bodies

    def _wanted(self) -> int:
        if len(self._buffer) < HEADER_BYTES:
            return HEADER_BYTES
        return HEADER_BYTES + self._body_bytes(self._buffer, 0)

    def _body_bytes(self, data: bytes | bytearray, at: int) -> int:
        size: int = _LENGTH.unpack_from(data, at)[0]
        if size > self._max_bytes:
            raise FrameError(f"a frame of {size} bytes was announced: at most {self._max_bytes} are allowed")
        return size

    def _cut(self, data: bytes) -> tuple[list[bytes], bytes]:
        bodies: list[bytes] = []
        at = 0
        while len(data) - at >= HEADER_BYTES:
            end = at + HEADER_BYTES + self._body_bytes(data, at)
            if end > len(data):
                break
            bodies.append(data[at + HEADER_BYTES : end])
            at = end
        return bodies, data[at:]
