"""Quix Streams: `sdf.apply` per record as its documentation shows it, or, tuned, a batching sink.

The sink is the way of the library to handle many records in one call: it is written when a checkpoint is committed, so
the checkpoint is what limits the batch.
"""

import logging
from typing import Any

from confluent_kafka import Producer
from quixstreams import Application
from quixstreams.sinks import BatchingSink

from benchmarks.contestants.assignment import Assignment, answer_headers, read_assignment
from benchmarks.workloads.task import ModelStep

_CHECKPOINT_SECONDS = 0.1
_BATCHES_PER_CHECKPOINT = 8


class ModelSink(BatchingSink):
    """Runs the model over what a checkpoint holds and produces the answers."""

    def __init__(self, task: Assignment, model: ModelStep) -> None:
        super().__init__()
        self._task = task
        self._model = model
        self._producer = Producer({"bootstrap.servers": task.bootstrap, "enable.idempotence": True, "linger.ms": 5})

    def write(self, batch: Any) -> None:
        """Called per partition; what is short is gathered until the last of them."""
        for items in batch.iter_chunks(self._task.batch_size):
            self._answer(items)

    def flush(self) -> None:
        """Write all partitions, then wait once for all deliveries."""
        super().flush()
        self._producer.flush()

    def _answer(self, items: Any) -> None:
        answers = self._model.answer([item.value for item in items])
        for item, answer in zip(items, answers, strict=True):
            headers = answer_headers(item.headers)
            self._producer.produce(self._task.results, answer, item.key, headers=headers)


def main() -> None:
    """Run until terminated."""
    task = read_assignment()
    model = task.load_model()
    tuning: dict[str, Any] = {}
    if task.is_tuned:
        tuning = {
            "commit_interval": _CHECKPOINT_SECONDS,
            "commit_every": _BATCHES_PER_CHECKPOINT * task.batch_size,
            "consumer_poll_timeout": 0.01,
        }
    application = Application(
        task.bootstrap,
        consumer_group=task.group,
        auto_offset_reset="earliest",
        state_dir=f"{task.folder}/quix",
        loglevel=logging.WARNING,
        **tuning,
    )
    requests = application.topic(task.requests, value_deserializer="bytes", key_deserializer="bytes")
    results = application.topic(task.results, value_serializer="bytes", key_serializer="bytes")
    frame = application.dataframe(requests)
    if task.is_tuned:
        frame.sink(ModelSink(task, model))
    else:
        frame.apply(lambda payload: model.answer([payload])[0]).to_topic(results)
    application.run()


if __name__ == "__main__":
    main()
