"""Kafka in front of mosec: consume, ask over HTTP, produce, commit. It starts the server itself.

As documented, one request per record and mosec batches them; tuned, one request per batch, as many of them in flight
as keep every worker busy.
"""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

import aiohttp
import msgspec
from confluent_kafka import Consumer, Message, Producer

from benchmarks.contestants.assignment import Assignment, answer_headers, read_assignment

WAIT_SECONDS = 0.01
ROUND_BATCHES = 4
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


async def ask_per_record(session: aiohttp.ClientSession, url: str, payloads: Sequence[bytes]) -> list[bytes]:
    """One request per record."""

    async def ask(payload: bytes) -> bytes:
        async with session.post(url, data=payload) as response:
            response.raise_for_status()
            answer: bytes = await response.read()
            return answer

    return list(await asyncio.gather(*(ask(payload) for payload in payloads)))


async def ask_per_batch(session: aiohttp.ClientSession, url: str, size: int, payloads: Sequence[bytes]) -> list[bytes]:
    """One request per batch of `size`."""

    async def ask(batch: Sequence[bytes]) -> list[bytes]:
        async with session.post(url, data=msgspec.msgpack.encode(batch)) as response:
            response.raise_for_status()
            return msgspec.msgpack.decode(await response.read(), type=list[bytes])

    batches = [payloads[start : start + size] for start in range(0, len(payloads), size)]
    return [answer for answers in await asyncio.gather(*(ask(batch) for batch in batches)) for answer in answers]


async def bridge(task: Assignment, url: str) -> None:
    """Run until terminated."""
    consumer = Consumer(
        {
            "bootstrap.servers": task.bootstrap,
            "group.id": task.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    producer = Producer({"bootstrap.servers": task.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    consumer.subscribe([task.requests])
    connector = aiohttp.TCPConnector(limit=ROUND_BATCHES * task.batch_size)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(_TIMEOUT_SECONDS)) as session:
        while True:
            consumed = consumer.consume(ROUND_BATCHES * task.batch_size, WAIT_SECONDS)
            messages = [message for message in consumed if not message.error()]
            if messages:
                payloads = [message.value() or b"" for message in messages]
                if task.is_tuned:
                    answers = await ask_per_batch(session, url, task.batch_size, payloads)
                else:
                    answers = await ask_per_record(session, url, payloads)
                _produce(producer, task.results, messages, answers)
                if task.is_tuned:
                    consumer.commit(asynchronous=True)
                else:
                    consumer.commit(asynchronous=False)


def _produce(producer: Producer, topic: str, messages: Sequence[Message], answers: Sequence[bytes]) -> None:
    for message, answer in zip(messages, answers, strict=True):
        producer.produce(topic, answer, message.key(), headers=answer_headers(message.headers()))
    producer.flush()


if __name__ == "__main__":
    asyncio.run(bridge(read_assignment(), start_server()))
