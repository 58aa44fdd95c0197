"""Ports on the loopback interface: chosen by the caller, remembered from the last run, or free."""

import random
import socket
from collections.abc import Mapping

from schemas.errors import ConfigurationError, UnavailableError

LOOPBACK = "127.0.0.1"
# Below Linux's range for outgoing connections (32768 and up): while a broker is down, a client that keeps reconnecting
# to a port of that range can be given the very same port as its source, connect to itself, and hold the port.
FREE_PORTS = range(20_000, 32_000)
MAX_DRAWS = 200


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As Java and Valkey do: closed connections that linger do not count, a listener does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def find_free_port(taken: set[int]) -> int:
    """Draw a free port that is not in `taken`.

    :raises UnavailableError: none was found.
    """
    for _ in range(MAX_DRAWS):
        port = random.choice(FREE_PORTS)  # noqa: S311 a port is no secret
        if port not in taken and is_free(port):
            return port
    raise UnavailableError(f"no free port found between {FREE_PORTS.start} and {FREE_PORTS.stop - 1} on {LOOPBACK}")


def assign_ports(chosen: Mapping[str, int | None], remembered: Mapping[str, int]) -> dict[str, int]:
    """Give each name of `chosen` a port: the chosen one, else the remembered one if it is free, else a free one.

    :raises ConfigurationError: a chosen port is out of range, chosen twice, or in use.
    """
    assigned: dict[str, int] = {}
    for name, port in chosen.items():
        if port is not None:
            _check_chosen(name, port, assigned)
            assigned[name] = port
    for name in chosen:
        if name not in assigned:
            taken = set(assigned.values())
            last = remembered.get(name)
            is_usable = last is not None and last not in taken and is_free(last)
            assigned[name] = last if is_usable and last is not None else find_free_port(taken)
    return assigned


def _check_chosen(name: str, port: int, assigned: Mapping[str, int]) -> None:
    if not 1 <= port <= 65_535:
        raise ConfigurationError(f"{name} port {port} is not between 1 and 65535")
    for other, other_port in assigned.items():
        if other_port == port:
            raise ConfigurationError(f"{name} and {other} cannot both use port {port}")
    if not is_free(port):
        raise ConfigurationError(
            f"{name} port {port} is already in use on {LOOPBACK}: stop what listens there or choose another port"
        )
