import asyncio
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from tests.faults.kafka_proxy import KafkaProxy
from tests.faults.request_faults import Action, ApiKey

END_TXN = ApiKey.END_TXN
FETCH = ApiKey.FETCH


class EchoBroker:
    """Answers each frame with its correlation id and remembers the order in which frames came."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                correlation = frame[4:8]
                self.received.append(int.from_bytes(correlation, "big"))
                writer.write(struct.pack(">i", len(correlation)) + correlation)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(5)

    def stop(self) -> None:
        async def close() -> None:
            self._server.close()

        asyncio.run_coroutine_threadsafe(close(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()


class Client:
    """A raw connection that sends frames by API key and reads correlation ids back."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=5)

    def send(self, api_key: int, correlation: int) -> None:
        body = struct.pack(">hhi", api_key, 1, correlation) + b"the rest"
        self._socket.sendall(struct.pack(">i", len(body)) + body)

    def receive(self) -> int:
        data = self._socket.recv(8, socket.MSG_WAITALL)
        if len(data) != 8:
            raise ConnectionResetError
        return int.from_bytes(data[4:], "big")

    def ask(self, api_key: int, correlation: int) -> int:
        self.send(api_key, correlation)
        return self.receive()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def broker() -> Iterator[EchoBroker]:
    echo = EchoBroker()
    echo.start()
    yield echo
    echo.stop()


@pytest.fixture
def proxy(broker: EchoBroker) -> Iterator[KafkaProxy]:
    with KafkaProxy(("127.0.0.1", broker.port)) as running:
        yield running


@pytest.fixture
def client(proxy: KafkaProxy) -> Iterator[Client]:
    connected = Client(proxy.port)
    yield connected
    connected.close()


def test_requests_pass_untouched_and_are_counted(proxy: KafkaProxy, client: Client) -> None:
    assert [client.ask(FETCH, 1), client.ask(FETCH, 2), client.ask(END_TXN, 3)] == [1, 2, 3]
    assert proxy.requests == {FETCH: 2, END_TXN: 1}
    assert not proxy.actions


def test_the_nth_request_is_held_the_connection_cut_and_the_request_delivered_later(
    broker: EchoBroker, proxy: KafkaProxy, client: Client
) -> None:
    fault = proxy.hold(END_TXN, 2, deliver_after=None)
    assert client.ask(END_TXN, 1) == 1
    client.send(END_TXN, 2)
    with pytest.raises(ConnectionError):
        client.receive()
    assert fault.struck.is_set()
    again = Client(proxy.port)
    assert again.ask(END_TXN, 3) == 3
    assert broker.received == [1, 3]
    fault.release()
    assert fault.finished.wait(5)
    assert broker.received == [1, 3, 2]
    assert fault.response == (2).to_bytes(4, "big")
    again.close()


def test_a_held_request_is_delivered_by_itself_when_its_time_is_over(
    broker: EchoBroker, proxy: KafkaProxy, client: Client
) -> None:
    fault = proxy.hold(END_TXN, deliver_after=0.05, cut=False)
    client.send(END_TXN, 1)
    assert fault.finished.wait(5)
    assert broker.received == [1]
    assert client.ask(FETCH, 2) == 2


def test_a_dropped_request_never_arrives_and_the_connection_lives_on(
    broker: EchoBroker, proxy: KafkaProxy, client: Client
) -> None:
    proxy.drop(FETCH)
    client.send(FETCH, 1)
    assert client.ask(FETCH, 2) == 2
    assert broker.received == [2]
    assert proxy.actions == {Action.DROP: 1}


def test_delayed_requests_arrive_late_and_in_order(broker: EchoBroker, proxy: KafkaProxy, client: Client) -> None:
    proxy.delay(FETCH, 0.1, nth=1)
    started = time.monotonic()
    client.send(FETCH, 1)
    client.send(END_TXN, 2)
    assert [client.receive(), client.receive()] == [1, 2]
    assert time.monotonic() - started >= 0.1


def test_a_reset_cuts_the_connection_and_delivers_nothing(
    broker: EchoBroker, proxy: KafkaProxy, client: Client
) -> None:
    fault = proxy.reset(FETCH)
    client.send(FETCH, 1)
    with pytest.raises(ConnectionError):
        client.receive()
    assert fault.finished.is_set()
    assert broker.received == []


def test_clearing_disarms_faults_that_have_not_struck(proxy: KafkaProxy, client: Client) -> None:
    fault = proxy.reset(FETCH, None)
    proxy.clear()
    assert client.ask(FETCH, 1) == 1
    assert not fault.struck.is_set()


def test_stopping_ends_the_thread_even_while_a_request_is_held(broker: EchoBroker) -> None:
    others = set(threading.enumerate())
    proxy = KafkaProxy(("127.0.0.1", broker.port)).start()
    client = Client(proxy.port)
    proxy.hold(END_TXN, deliver_after=None)
    client.send(END_TXN, 1)
    with pytest.raises(ConnectionError):
        client.receive()
    proxy.stop()
    assert not any(thread.name == "kafka-proxy" for thread in set(threading.enumerate()) - others)
    client.close()
