"""A paused server is silent from the moment that the pause returns, and an ended one is no reason to wait."""

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from headrace.local_stack.service_process import ServiceProcess

# Enough threads that some of them run on the other cores when the signal comes.
BUSY = "import threading\nfor _ in range(8): threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServiceProcess]:
    server = ServiceProcess("busy", tmp_path / "output")
    server.start([sys.executable, "-c", BUSY], lambda: True, 10)
    yield server
    server.kill()


def test_every_thread_has_stopped_when_the_pause_returns(server: ServiceProcess) -> None:
    for _ in range(2):  # the second one finds it paused already, and returns too
        server.pause()
        assert psutil.Process(server.pid).status() == psutil.STATUS_STOPPED
    server.resume()
    assert psutil.Process(server.pid).status() != psutil.STATUS_STOPPED


def test_a_pause_of_an_ended_process_returns_and_leaves_its_end_to_be_seen(server: ServiceProcess) -> None:
    psutil.Process(server.pid).send_signal(signal.SIGKILL)
    server.pause()
    server.stop(5)
    assert not server.is_alive()
