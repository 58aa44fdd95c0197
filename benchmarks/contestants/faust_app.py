"""Faust (faust-streaming): an agent that takes batches, as its user guide has it under "Agents", `stream.take()`.

Tuned: as many one-thread processes as cores, larger fetches, a linger, and sends that are awaited per batch and not
per record.
"""

import asyncio
import os
import sys
from typing import Any

import faust

from benchmarks.contestants.assignment import ID_HEADER, Assignment, find_id, read_assignment

WAIT_SECONDS = 0.01
_TUNED = {
    "stream_buffer_maxsize": 16_384,
    "producer_linger": 0.005,
    "producer_max_batch_size": 1 << 20,
    "broker_commit_interval": 0.5,
    "stream_wait_empty": False,
}


def make_app(task: Assignment) -> faust.App:
    """The application of one process."""
    app = faust.App(
        task.group,
        broker=f"kafka://{task.bootstrap}",
        datadir=f"{task.folder}/faust-{os.getpid()}",
        web_enabled=False,
        value_serializer="raw",
        key_serializer="raw",
        topic_partitions=8,
        topic_disable_leader=True,
        broker_max_poll_records=4 * task.batch_size,
        **(_TUNED if task.is_tuned else {}),
    )
    requests = app.topic(task.requests, value_type=bytes, key_type=bytes)
    results = app.topic(task.results, value_type=bytes, key_type=bytes)
    model = task.load_model()

    @app.agent(requests)
    async def answer(stream: Any) -> None:
        async for events in stream.take_events(task.batch_size, within=WAIT_SECONDS):
            answers = model.answer([event.value for event in events])
            sends = [
                results.send(key=event.key, value=value, headers=[(ID_HEADER, _read_id(event.headers))])
                for event, value in zip(events, answers, strict=True)
            ]
            if task.is_tuned:
                await asyncio.gather(*sends)
            else:
                for send in sends:
                    await send

    return app


def _read_id(headers: Any) -> bytes:
    return headers[ID_HEADER] if isinstance(headers, dict) else find_id(headers)


if __name__ == "__main__":
    sys.argv = [sys.argv[0], "worker", "--without-web", "--loglevel", "warn"]
    make_app(read_assignment()).main()
