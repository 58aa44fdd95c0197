"""What a preparing thread and decode threads gain: `python -m benchmarks.overlap frames`, on real model processes.

Every case runs in alternating rounds over the same payloads, all its model processes busy with two batches each; no
Kafka. Prints records per second, the median and spread of the rounds.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.workloads.specification import MODELS, PAYLOADS, VERSION, WORKLOADS, Workload
from schemas.settings import Settings
from stream_workers.batching.work import ServedVersion
from stream_workers.profiling.model_bench import ModelBench
from stream_workers.profiling.samples import Sample, SampleStream

_SLOTS = 2


class Case(NamedTuple):
    """How many processes of how many intra-op threads, and the decode threads of each: 0 for no overlap."""

    instances: int
    threads: int
    decode_threads: int


def list_cases(cores: int) -> list[Case]:
    """One process per core, one on a single thread, and one over all cores; each without and with overlap."""
    splits = dict.fromkeys([(cores, 1), (1, 1), (1, cores)])
    return [Case(*split, decode_threads) for split in splits for decode_threads in (0, 1, 2)]


def settings_for(workload: Workload, folder: Path, case: Case) -> Settings:
    """Settings of a worker that serves the prepared workload in this way."""
    return Settings.model_validate(
        {
            "model": {
                "name": workload.name,
                "version": VERSION,
                "classes": {workload.model_class: workload.import_path},
                "instances": case.instances,
                "threads": case.threads,
                "decode_threads": case.decode_threads,
            },
            "batching": {"max_batch_size": workload.batch_size, "slots": _SLOTS},
            "store": {"root": folder / MODELS, "cache_dir": folder / "cache"},
        }
    )


def measure(bench: ModelBench, samples: Sequence[Sample], size: int, seconds: float) -> float:
    """Return records per second, all slots kept full."""
    stream = SampleStream(samples)
    answered, began = 0, 0.0
    until = time.monotonic() + 1.0 + seconds
    while (now := time.monotonic()) < until:
        for replica in bench.replicas:
            while replica.count_free_slots():
                bench.submit(stream.take(size, now), now, replica)
        count = len(bench.collect(0.5)) * size
        if began:
            answered += count
        elif now > until - seconds:  # the first second fills the slots and warms up
            began = time.monotonic()
    rate = answered / (time.monotonic() - began)
    while bench.batches_in_hand:
        bench.collect(0.5)
    return rate


def main() -> None:
    """Measure the cases of one workload."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workload", choices=sorted(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    workload = WORKLOADS[options.workload]
    cases = list_cases(os.cpu_count() or 1)
    rates: dict[Case, list[float]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory(prefix="headrace-overlap-") as name:
        folder = Path(name)
        subprocess.run(  # noqa: S603 - our own module
            [sys.executable, "-m", "benchmarks.workloads.prepare", workload.name, name], check=True
        )
        payloads = msgspec.msgpack.decode((folder / PAYLOADS).read_bytes(), type=list[bytes])
        samples = [Sample(payload, workload.content_type) for payload in payloads]
        for _ in range(options.rounds):
            for case in cases:
                settings = settings_for(workload, folder, case)
                with ModelBench(settings, ServedVersion(workload.name, VERSION, 1), os.environ) as bench:
                    rates[case].append(measure(bench, samples, workload.batch_size, options.seconds))
    table = Table(title=workload.title)
    for column in ("instances", "threads", "decode threads", "records/s", "from", "to"):
        table.add_column(column, justify="right")
    for case, found in rates.items():
        figures = (statistics.median(found), min(found), max(found))
        table.add_row(*(str(part) for part in case), *(f"{figure:,.0f}" for figure in figures))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
