"""The local stack itself: it starts, keeps its data, refuses what cannot work, and leaves nothing behind."""

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from headrace.local_stack.ports import LOOPBACK, find_free_port
from headrace.local_stack.stack import LocalStack
from headrace.local_stack.wire_probe import is_broker_ready, metadata_request
from schemas.errors import ConfigurationError, UnavailableError

UP_SECONDS = 60
GONE_SECONDS = 10


def wait_until(condition: Callable[[], bool], what: str, seconds: float = GONE_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {seconds} s: {what}")
        time.sleep(0.05)


def ask(port: int, request: bytes) -> bytes:
    with socket.create_connection((LOOPBACK, port), timeout=5) as connection:
        connection.sendall(request)
        return connection.recv(65_536)


def port_of(stack: LocalStack) -> int:
    return int(stack.bootstrap.rpartition(":")[2])


def create_topic(bootstrap: str, name: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(name, num_partitions=2, replication_factor=1)])
    admin.close()


def list_topics(bootstrap: str) -> set[str]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    topics = set(admin.list_topics())
    admin.close()
    return topics


def is_running(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def up(stack: LocalStack, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A `headrace up` that has said where it is, in a process of its own. Asks for `stack` to be skipped with it."""
    command = [sys.executable, "-m", "headrace", "up", "--data-dir", str(tmp_path / "up")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        announced = [process.stdout.readline(), process.stdout.readline()]
        assert [line.partition("=")[0] for line in announced] == [
            "export HEADRACE_KAFKA__BOOTSTRAP",
            "export HEADRACE_REDIS__URL",
        ], process.stderr.read() if process.stderr and process.poll() is not None else announced
        yield process
        process.kill()


def children_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    children: list[psutil.Process] = psutil.Process(process.pid).children(recursive=True)
    assert sorted(Path(child.exe()).name for child in children) == ["java", "valkey-server"]
    return children


def test_a_second_start_in_the_same_directory_has_the_same_topics_and_addresses(
    stack: LocalStack, tmp_path: Path, unique: str
) -> None:
    advertised = find_free_port(set())
    with LocalStack(tmp_path / "data", extra_advertised={"PROXY": advertised}) as first:
        create_topic(first.bootstrap, unique)
        addresses = (first.environment(), first.listener_port("PROXY"))
        answer = ask(first.listener_port("PROXY"), metadata_request())
        assert struct.pack(">i", advertised) in answer
        assert struct.pack(">i", port_of(first)) not in answer
    with LocalStack(tmp_path / "data", extra_advertised={"PROXY": advertised}) as second:
        assert (second.environment(), second.listener_port("PROXY")) == addresses
        assert unique in list_topics(second.bootstrap)


def test_a_killed_broker_comes_back_with_its_topics(stack: LocalStack, unique: str) -> None:
    create_topic(stack.bootstrap, unique)
    before = stack.broker_pid
    stack.restart_broker(kill=True)
    assert stack.broker_pid != before
    assert unique in list_topics(stack.bootstrap)


def test_a_broker_restarted_by_a_thread_outlives_the_thread(stack: LocalStack) -> None:
    thread = threading.Thread(target=stack.restart_broker)
    thread.start()
    thread.join()
    assert is_broker_ready(port_of(stack))
    assert stack.find_dead_server() is None


def test_a_paused_broker_answers_again_when_resumed(stack: LocalStack) -> None:
    stack.pause_broker()
    try:
        assert not is_broker_ready(port_of(stack), timeout_seconds=0.3)
        assert stack.find_dead_server() is None
    finally:
        stack.resume_broker()
    wait_until(lambda: is_broker_ready(port_of(stack)), "the broker answers")


def test_a_killed_valkey_comes_back_with_its_keys(stack: LocalStack, unique: str) -> None:
    port = int(stack.redis_url.rpartition(":")[2].partition("/")[0])
    assert ask(port, f"SET {unique} kept\r\n".encode()) == b"+OK\r\n"
    before = stack.redis_pid
    stack.restart_redis(kill=True)
    assert stack.redis_pid != before
    assert ask(port, f"GET {unique}\r\n".encode()) == b"$4\r\nkept\r\n"


def test_everything_listens_on_loopback_only(stack: LocalStack) -> None:
    for pid in (stack.broker_pid, stack.redis_pid):
        listening = [c.laddr.ip for c in psutil.Process(pid).net_connections("inet") if c.status == psutil.CONN_LISTEN]
        assert {address.removeprefix("::ffff:") for address in listening} == {LOOPBACK}


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"kafka port {port} is already in use"):
            LocalStack(tmp_path / "data", kafka_port=port).start()


def test_a_second_stack_in_a_directory_in_use_is_refused(stack: LocalStack) -> None:
    with pytest.raises(UnavailableError, match=f"in use by another local stack \\(process {os.getpid()}\\)"):
        LocalStack(stack.data_dir, fresh=True).start()
    assert stack.find_dead_server() is None


def test_an_option_that_kafka_refuses_is_told_and_nothing_is_left(stack: LocalStack, tmp_path: Path) -> None:
    children = len(psutil.Process().children())
    broken = LocalStack(tmp_path / "data", broker_options={"num.io.threads": "none"})
    with pytest.raises(ConfigurationError, match=r"num\.io\.threads"):
        broken.start()
    assert len(psutil.Process().children()) == children
    LocalStack(tmp_path / "data")._directory.open()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_up_stops_cleanly_when_asked(up: subprocess.Popen[str], number: signal.Signals) -> None:
    children = children_of(up)
    up.send_signal(number)
    assert up.wait(GONE_SECONDS) == 0
    assert not any(is_running(child) for child in children)


def test_no_server_outlives_a_killed_up(up: subprocess.Popen[str]) -> None:
    children = children_of(up)
    up.kill()
    wait_until(lambda: not any(is_running(child) for child in children), "the servers are gone", seconds=3)


def test_up_says_which_server_died_and_stops_the_other(up: subprocess.Popen[str]) -> None:
    children = children_of(up)
    valkey = next(child for child in children if "valkey" in Path(child.exe()).name)
    valkey.kill()
    assert up.wait(GONE_SECONDS) == 1
    assert up.stderr is not None
    assert "headrace: Valkey ended unexpectedly: signal 9; its output is in" in up.stderr.read()
    assert not any(is_running(child) for child in children)
