"""Bytewax: a dataflow from a Kafka source to a Kafka sink, run by `python -m bytewax.run`.

As documented, records are keyed and gathered with `collect`. Tuned, the batches that the source reads go through the
model as they are, without being taken apart, in as many one-thread processes as cores.
"""

from datetime import timedelta
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSourceMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow

from benchmarks.contestants.assignment import Assignment, answer_headers, read_assignment
from benchmarks.workloads.task import ModelStep

COLLECT_SECONDS = 0.01


def make_flow(task: Assignment) -> Dataflow:
    """The dataflow of one process."""
    model = task.load_model()
    flow = Dataflow("benchmark")
    source = kop.input(
        "requests",
        flow,
        brokers=[task.bootstrap],
        topics=[task.requests],
        tail=True,
        batch_size=task.batch_size if task.is_tuned else 1000,
    )
    if task.is_tuned:
        answers = op.flat_map_batch("answer", source.oks, lambda messages: _answer(model, messages))
    else:
        keyed = op.key_on("key", source.oks, lambda message: str(message.partition))
        gathered = op.collect("gather", keyed, timedelta(seconds=COLLECT_SECONDS), max_size=task.batch_size)
        answers = op.flat_map("answer", gathered, lambda pair: _answer(model, pair[1]))
    kop.output(
        "results",
        answers,
        brokers=[task.bootstrap],
        topic=task.results,
        add_config={"linger.ms": "5"} if task.is_tuned else None,
    )
    return flow


def _answer(model: ModelStep, messages: list[KafkaSourceMessage[Any, Any]]) -> list[KafkaSinkMessage[Any, Any]]:
    answers = model.answer([message.value for message in messages])
    return [
        KafkaSinkMessage(message.key, answer, headers=answer_headers(message.headers))
        for message, answer in zip(messages, answers, strict=True)
    ]


flow = make_flow(read_assignment())
