"""Kafka in front of mosec: consume, ask over HTTP, produce, commit. It starts the server itself.

As documented, one request per record and mosec batches them; tuned, one request per batch. Both keep as many in flight
as keep every worker busy.
"""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import cast

import aiohttp
import msgspec
from confluent_kafka import Consumer, Message, Producer

from benchmarks.contestants.acknowledged import AcknowledgedPrefix, Report
from benchmarks.contestants.assignment import Assignment, answer_headers, read_assignment

PAUSE_SECONDS = 0.002
COMMIT_SECONDS = 0.1
BATCHES_IN_FLIGHT = 6
_START_SECONDS = 90
_TIMEOUT_SECONDS = 60
_HOST = "127.0.0.1"


def start_server() -> str:
    """Start mosec on a free port; returns the address of its endpoint once it answers."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "benchmarks.contestants.mosec_server", "--address", _HOST, "--port", str(port)]
    # The default of three seconds is for callers who wait: a backlog would be answered with timeouts.
    command += ["--timeout", str(_TIMEOUT_SECONDS * 1000)]
    server = subprocess.Popen(command)  # noqa: S603 - our own module
    give_up_at = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection((_HOST, port), 1).close()
            return f"http://{_HOST}:{port}/inference"
        except OSError:
            if server.poll() is not None or time.monotonic() > give_up_at:
                raise SystemExit("mosec did not start") from None
            time.sleep(0.05)


class Bridge:
    """Asks while it consumes: a slow batch holds up nobody, and offsets follow what was delivered."""

    def __init__(self, task: Assignment, session: aiohttp.ClientSession, url: str) -> None:
        client = {"bootstrap.servers": task.bootstrap}
        self._task, self._session, self._url = task, session, url
        self._consumer = Consumer(
            {**client, "group.id": task.group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        )
        self._producer = Producer({**client, "enable.idempotence": True, "linger.ms": 5})
        self._prefix = AcknowledgedPrefix(self._consumer, task.requests)
        self._in_flight: set[asyncio.Task[None]] = set()
        self._records = 0

    async def run(self) -> None:
        """Run until terminated; a request that fails ends it."""
        self._consumer.subscribe([self._task.requests], on_revoke=lambda *_: self._prefix.forget())
        commit_at, room = time.monotonic(), BATCHES_IN_FLIGHT * self._task.batch_size
        while True:
            wanted = min(self._task.batch_size, room - self._records)
            consumed = self._consumer.consume(wanted, 0.0) if wanted > 0 else []
            messages = [message for message in consumed if not message.error()]
            if messages:
                self._start(messages, self._prefix.note(messages))
            self._producer.poll(0)
            if time.monotonic() >= commit_at:
                commit_at = time.monotonic() + COMMIT_SECONDS
                self._prefix.commit()
            await asyncio.sleep(0 if messages else PAUSE_SECONDS)

    def _start(self, messages: Sequence[Message], reports: Mapping[int, Report]) -> None:
        """Tuned, one request for all of them; as documented, one for each."""
        groups = [messages] if self._task.is_tuned else [[message] for message in messages]
        for group in groups:
            self._records += len(group)
            started = asyncio.create_task(self._answer(group, reports))
            self._in_flight.add(started)
            started.add_done_callback(self._finish)

    def _finish(self, done: asyncio.Task[None]) -> None:
        self._in_flight.discard(done)
        if done.exception() is not None:
            sys.exit(f"mosec: {done.exception()!r}")

    async def _answer(self, messages: Sequence[Message], reports: Mapping[int, Report]) -> None:
        payloads = [message.value() or b"" for message in messages]
        body = msgspec.msgpack.encode(payloads) if self._task.is_tuned else payloads[0]
        async with self._session.post(self._url, data=body) as response:
            response.raise_for_status()
            text: bytes = await response.read()
        answers = msgspec.msgpack.decode(text, type=list[bytes]) if self._task.is_tuned else [text]
        for message, answer in zip(messages, answers, strict=True):
            report = reports[cast("int", message.partition())]
            headers = answer_headers(message.headers())
            self._producer.produce(self._task.results, answer, message.key(), headers=headers, on_delivery=report)
        self._records -= len(messages)


async def main() -> None:
    """Start the server and bridge to it."""
    task = read_assignment()
    url = start_server()
    connector = aiohttp.TCPConnector(limit=BATCHES_IN_FLIGHT * task.batch_size)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(_TIMEOUT_SECONDS)) as session:
        await Bridge(task, session, url).run()


if __name__ == "__main__":
    asyncio.run(main())
