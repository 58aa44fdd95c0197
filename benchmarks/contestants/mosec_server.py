"""The model behind mosec: a worker with dynamic batching, as its README has it.

Tuned: as many one-thread workers as cores, and a request carries a batch that the bridge made, in msgpack.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from mosec import Server, Worker

from benchmarks.contestants.assignment import Assignment, read_assignment

WAIT_MS = 10


class Single(Worker):
    """One request, one record: mosec makes the batches."""

    def __init__(self) -> None:
        super().__init__()
        self._model = read_assignment().load_model()

    def deserialize(self, data: bytes) -> bytes:
        """The payload as it came."""
        return data

    def serialize(self, data: bytes) -> bytes:
        """JSON text already."""
        return data

    def forward(self, data: list[bytes]) -> Sequence[bytes]:
        """Answer one batch."""
        return self._model.answer(data)


class Bulk(Worker):
    """One request, one batch."""

    def __init__(self) -> None:
        super().__init__()
        self._model = read_assignment().load_model()

    def deserialize(self, data: bytes) -> Any:
        """Payloads."""
        return msgspec.msgpack.decode(data)

    def serialize(self, data: Any) -> bytes:
        """Answers."""
        return msgspec.msgpack.encode(data)

    def forward(self, data: Any) -> Any:
        """Answer one batch."""
        return self._model.answer(data)


def main(task: Assignment) -> None:
    """Serve until terminated; address and port are mosec's own arguments."""
    server = Server()
    if task.is_tuned:
        server.append_worker(Bulk, num=task.processes)
    else:
        server.append_worker(Single, max_batch_size=task.batch_size, max_wait_time=WAIT_MS)
    server.run()


if __name__ == "__main__":
    main(read_assignment())
