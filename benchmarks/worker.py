"""The worker against its limits and against the loop that it replaces, in alternating rounds of one run.

    python -m benchmarks.worker [--workload small|frames] [--rounds N] [--json FILE]

Every contestant of a round reads the same backlog from the same broker with a consumer group of its own and writes to a
fresh topic. The clock starts when a fifth of the answers is readable and stops when all are, as a read_committed reader
sees it: start-up does not count, and a transaction counts once it is committed. Records are counted, not assumed.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks.workloads import WORKLOADS, Workload
from headrace.local_stack.stack import LocalStack
from model_store.publishing import VersionDraft, publish_state
from model_store.store import ModelStore
from model_store.torch_loader import save_state

PARTITIONS = 8
TIMEOUT_SECONDS = 180.0
LOOPS = ("loop", "loop_tuned", "passthrough")
CONTESTANTS = (*LOOPS, "at_least_once", "exactly_once")


class Bench:
    """One broker, one backlog per workload, any number of rounds."""

    def __init__(self, stack: LocalStack, folder: Path, console: Console) -> None:
        self._bootstrap = stack.bootstrap
        self._folder = folder
        self._console = console
        self._admin = AdminClient({"bootstrap.servers": self._bootstrap})
        self._serial = 0

    def prepare(self, workload: Workload) -> None:
        """Publish the backlog and the model version."""
        self._console.print(f"{workload.name}: publishing {workload.records} requests")
        self._create(f"{workload.name}-requests")
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 20})
        payloads = workload.payloads()
        headers = [("content-type", workload.content_type.encode())]
        for number in range(workload.records):
            payload = payloads[number % len(payloads)]
            while True:
                try:
                    producer.produce(f"{workload.name}-requests", payload, str(number % 64).encode(), headers=headers)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.flush()
        draft = VersionDraft(name=workload.name, version="v1", model_class=workload.model_class)
        publish_state(ModelStore(self._folder / "models"), draft, workload.build().state_dict(), save_state)

    def measure(self, workload: Workload, contestant: str) -> float:
        """Run one contestant over the backlog; returns records per second."""
        self._serial += 1
        results = f"{workload.name}-{contestant.replace('_', '-')}-{self._serial}"
        self._create(results, f"{results}-dead")
        with self._running(workload, contestant, results):
            return self._watch(workload, results)

    def _watch(self, workload: Workload, results: str) -> float:
        reader = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": results, "isolation.level": "read_committed"}
        )
        reader.assign([TopicPartition(results, number, 0) for number in range(PARTITIONS)])
        started, give_up_at = None, time.monotonic() + TIMEOUT_SECONDS
        seen = begin = 0
        try:
            while seen < workload.records and time.monotonic() < give_up_at:
                seen += sum(1 for message in reader.consume(10_000, 0.02) if not message.error())
                if started is None and seen >= workload.records // 5:
                    started, begin = time.monotonic(), seen
        finally:
            reader.close()
        if seen != workload.records or started is None:
            raise SystemExit(f"{results}: {seen} of {workload.records} answers")
        return (seen - begin) / (time.monotonic() - started)

    @contextlib.contextmanager
    def _running(self, workload: Workload, contestant: str, results: str) -> Iterator[None]:
        if contestant in LOOPS:
            command = [sys.executable, "-m", "benchmarks.contestants", contestant, "--workload", workload.name]
            command += ["--bootstrap", self._bootstrap, "--requests", f"{workload.name}-requests", "--results", results]
        else:
            command = [
                sys.executable,
                "-m",
                "headrace",
                "worker",
                "--config",
                str(self._config(workload, contestant, results)),
            ]
        log = (self._folder / f"{results}.log").open("wb")
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"PYTHONPATH": os.getcwd()})  # noqa: S603, PTH109 - our own modules
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)
            log.close()

    def _config(self, workload: Workload, contestant: str, results: str) -> Path:
        path = self._folder / f"{results}.yaml"
        config = {
            "kafka": {"bootstrap": self._bootstrap},
            "topics": {
                "requests": [f"{workload.name}-requests"],
                "results": results,
                "dead_letters": f"{results}-dead",
            },
            "store": {"root": str(self._folder / "models"), "cache_dir": str(self._folder / "cache")},
            "model": {
                "name": workload.name,
                "version": "v1",
                "classes": {workload.model_class: workload.import_path},
            },
            "batching": {"max_batch_size": workload.batch_size},
            "worker": {"group": results, "delivery": contestant, "state_dir": str(self._folder / "state")},
            "health": {"port": 0},
        }
        path.write_text(json.dumps(config))
        return path

    def _create(self, *topics: str) -> None:
        for future in self._admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in topics]).values():
            future.result()


def measure_model(workload: Workload) -> float:
    """Records per second of two single-thread replicas side by side, without Kafka: what two cores can do."""
    command = [sys.executable, "-m", "benchmarks.contestants", "model", "--workload", workload.name]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": os.getcwd()})  # noqa: S603, PTH109 - our own module
        for _ in range(2)
    ]
    return sum(json.loads(process.communicate()[0])["records_per_second"] for process in processes)


def report(console: Console, workload: Workload, rates: dict[str, list[float]]) -> dict[str, float]:
    """Print medians and their ratio to the loop; returns the medians."""
    medians = {name: statistics.median(values) for name, values in rates.items()}
    table = Table(title=f"{workload.name}: batch {workload.batch_size}, {len(rates['loop'])} alternating rounds")
    for column in ("contestant", "records/s", "x loop", "rounds"):
        table.add_column(column, justify="left" if column == "contestant" else "right")
    for name, median in medians.items():
        rounds = ", ".join(f"{value:,.0f}" for value in rates[name])
        table.add_row(name, f"{median:,.0f}", f"{median / medians['loop']:.2f}", rounds)
    console.print(table)
    ratio = medians["exactly_once"] / medians["at_least_once"]
    console.print(f"exactly-once reaches {ratio:.0%} of at-least-once")
    return medians


def main(argv: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workload", choices=sorted(WORKLOADS), action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    console = Console()
    found = {}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folder = Path(name)
        with LocalStack(folder / "stack", heap_mb=1024) as stack:
            bench = Bench(stack, folder, console)
            for key in arguments.workload or sorted(WORKLOADS, reverse=True):
                workload = WORKLOADS[key]
                bench.prepare(workload)
                contestants = list(CONTESTANTS)
                if workload.loop_batch_size == workload.batch_size:
                    contestants.remove("loop_tuned")
                rates: dict[str, list[float]] = {name: [] for name in (*contestants, "model_alone")}
                for number in range(arguments.rounds):
                    # The order turns with every round, so that no contestant always runs on a warm or a tired machine.
                    for offset in range(len(contestants)):
                        contestant = contestants[(number + offset) % len(contestants)]
                        rates[contestant].append(bench.measure(workload, contestant))
                        console.print(f"  {contestant}: {rates[contestant][-1]:,.0f}/s")
                    rates["model_alone"].append(measure_model(workload))
                found[key] = report(console, workload, rates)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
