"""The other runners of the benchmark, each a process of its own: `python -m benchmarks.contestants NAME ...`.

`loop` is the straightforward consumer that a careful engineer writes first, `loop_tuned` the same at the worker's batch
size; `passthrough` has no model, which is what Kafka and the client can do; `model` is the model without Kafka, which
is what the cores can do.
"""

import argparse
import json
import time
from collections.abc import Sequence

import msgspec
import torch
from confluent_kafka import Consumer, Producer

from benchmarks.workloads import WORKLOADS, Workload


def run_loop(workload: Workload, size: int, bootstrap: str, requests: str, results: str, *, with_model: bool) -> None:
    """Consume a batch, answer it, flush, commit. Ends when it is terminated."""
    module = prepare(workload) if with_model else None
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{results}-loop",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    consumer.subscribe([requests])
    while True:
        messages = [message for message in consumer.consume(size, 0.05) if not message.error()]
        if not messages:
            continue
        answers = infer(module, workload, [message.value() for message in messages])
        for message, answer in zip(messages, answers, strict=True):
            producer.produce(results, answer, message.key(), headers=[("ce_id", f"{message.offset()}".encode())])
        producer.flush()
        consumer.commit(asynchronous=False)


def infer(module: torch.nn.Module | None, workload: Workload, payloads: Sequence[bytes]) -> Sequence[bytes]:
    """Decode, run, encode: JSON per record; a constant without a model."""
    if module is None:
        return [b"[0]"] * len(payloads)
    with torch.inference_mode():
        inputs = workload.decode(payloads)
        if workload.channels_last:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        scores = torch.softmax(module(inputs), dim=-1)
    if workload.channels_last:
        best = scores.max(dim=-1)
        rows = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [msgspec.json.encode({"class": index, "probability": value}) for index, value in rows]
    return [msgspec.json.encode(row) for row in scores.tolist()]


def prepare(workload: Workload) -> torch.nn.Module:
    """Build the module as the worker would run it."""
    module = workload.build().eval()
    if workload.channels_last:
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # stubs lack this overload
    return module


def run_model(workload: Workload, seconds: float) -> None:
    """Print how many records per second one single-thread replica answers from preloaded tensors."""
    torch.set_num_threads(1)
    module, batch = prepare(workload), workload.decode(list(workload.payloads())[: workload.batch_size])
    if workload.channels_last:
        batch = batch.contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        module(batch)
        started, count = time.perf_counter(), 0
        while time.perf_counter() - started < seconds:
            module(batch)
            count += len(batch)
        print(json.dumps({"records_per_second": count / (time.perf_counter() - started)}), flush=True)


def main() -> None:
    """Read the arguments and run one contestant."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=["loop", "loop_tuned", "passthrough", "model"])
    parser.add_argument("--workload", choices=sorted(WORKLOADS), required=True)
    parser.add_argument("--bootstrap", default="")
    parser.add_argument("--requests", default="")
    parser.add_argument("--results", default="")
    parser.add_argument("--seconds", type=float, default=3.0)
    arguments = parser.parse_args()
    workload = WORKLOADS[arguments.workload]
    if arguments.name == "model":
        run_model(workload, arguments.seconds)
        return
    size = workload.loop_batch_size if arguments.name == "loop" else workload.batch_size
    with_model = arguments.name != "passthrough"
    run_loop(workload, size, arguments.bootstrap, arguments.requests, arguments.results, with_model=with_model)


if __name__ == "__main__":
    main()
