import socket

import pytest

from headrace.local_stack.ports import FREE_PORTS, LOOPBACK, assign_ports, find_free_port, is_free
from schemas.errors import ConfigurationError


def test_a_port_with_a_listener_is_not_free() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)


def test_a_free_port_is_below_the_range_of_outgoing_connections() -> None:
    assert find_free_port(set()) in FREE_PORTS
    assert FREE_PORTS.stop <= 32_768


def test_a_remembered_port_is_used_again_when_it_is_free() -> None:
    remembered = find_free_port(set())
    assert assign_ports({"kafka": None}, {"kafka": remembered}) == {"kafka": remembered}


def test_a_remembered_port_that_is_taken_is_replaced() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        remembered = listener.getsockname()[1]
        assert assign_ports({"kafka": None}, {"kafka": remembered})["kafka"] != remembered


def test_a_chosen_port_wins_over_the_remembered_one_of_another_name() -> None:
    port = find_free_port(set())
    ports = assign_ports({"redis": None, "kafka": port}, {"redis": port})
    assert ports["kafka"] == port
    assert ports["redis"] != port


def test_a_chosen_port_that_is_taken_is_named() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"kafka port {port} is already in use"):
            assign_ports({"kafka": port}, {})


def test_one_port_cannot_be_chosen_twice() -> None:
    port = find_free_port(set())
    with pytest.raises(ConfigurationError, match="redis and kafka cannot both use port"):
        assign_ports({"kafka": port, "redis": port}, {})


@pytest.mark.parametrize("port", [0, -1, 65_536])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(ConfigurationError, match="not between 1 and 65535"):
        assign_ports({"kafka": port}, {})
