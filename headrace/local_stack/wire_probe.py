"""Ask a broker or a Valkey server over a plain socket whether it answers. No client library is needed for that."""

import socket
import struct

from headrace.local_stack.ports import LOOPBACK

METADATA_KEY = 3
METADATA_VERSION = 1
CORRELATION_ID = 7
MAX_ANSWER_BYTES = 1 << 20


def metadata_request() -> bytes:
    """A Metadata request (version 1) for the brokers and for no topic, with its length in front."""
    client_id = b"headrace-probe"
    header = struct.pack(">hhih", METADATA_KEY, METADATA_VERSION, CORRELATION_ID, len(client_id)) + client_id
    body = header + struct.pack(">i", 0)
    return struct.pack(">i", len(body)) + body


def count_brokers(answer: bytes) -> int:
    """How many live brokers a Metadata answer (without its length) names; 0 if it is not an answer to our request."""
    if len(answer) < 8:
        return 0
    correlation_id, brokers = struct.unpack_from(">ii", answer)
    return max(0, brokers) if correlation_id == CORRELATION_ID else 0


def is_broker_ready(port: int, timeout_seconds: float = 1.0) -> bool:
    """Whether the broker on this port takes requests and is in its own metadata.

    A broker accepts connections some time before the controller lets it in; only then is it in the answer.
    """
    try:
        with socket.create_connection((LOOPBACK, port), timeout=timeout_seconds) as connection:
            connection.sendall(metadata_request())
            (length,) = struct.unpack(">i", _receive(connection, 4))
            return 0 < length <= MAX_ANSWER_BYTES and count_brokers(_receive(connection, length)) > 0
    except OSError:
        return False


def is_valkey_ready(port: int, timeout_seconds: float = 1.0) -> bool:
    """Whether the server on this port answers a PING. One that still loads its data does not."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=timeout_seconds) as connection:
            connection.sendall(b"PING\r\n")
            return _receive(connection, 5) == b"+PONG"
    except OSError:
        return False


def _receive(connection: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        chunk = connection.recv(length - len(received))
        if not chunk:
            raise ConnectionError("closed in the middle of an answer")
        received += chunk
    return received
