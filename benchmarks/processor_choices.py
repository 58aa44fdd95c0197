"""What each choice for the CPU is worth: `python -m benchmarks.processor_choices`, forward only, at batch 16.

Every case is the default with one thing changed, in processes of its own, in alternating rounds. Prints pictures per
second of all processes together, and the ratio to the default: one process per core on one thread, channels last,
freed memory kept, OMP threads that wait passively, not compiled.
"""

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

BATCH, SIDE = 16, 224
_CHILD = "--child"


@dataclass(frozen=True)
class Case:
    """How the processes of one case run."""

    instances: int
    threads: int = 1
    channels_last: bool = True
    keeps_memory: bool = True
    omp_wait: str = "PASSIVE"
    compiled: bool = False
    model: str = "mobilenet"


def list_cases(cores: int, model: str) -> dict[str, Case]:
    """The default, and what it is compared with."""
    default = Case(cores, model=model)
    together = dataclasses.replace(default, instances=1, threads=cores)
    return {
        "default": default,
        "channels first": dataclasses.replace(default, channels_last=False),
        "freed memory returned": dataclasses.replace(default, keeps_memory=False),
        "compiled": dataclasses.replace(default, compiled=True),
        f"one process, {cores} threads, passive": together,
        f"one process, {cores} threads, active": dataclasses.replace(together, omp_wait="ACTIVE"),
        f"{cores} processes, {cores} threads each, passive": dataclasses.replace(default, threads=cores),
        f"{cores} processes, {cores} threads each, active": dataclasses.replace(
            default, threads=cores, omp_wait="ACTIVE"
        ),
    }


def measure(case: Case, seconds: float, cache_dir: str) -> float:
    """Return pictures per second of all processes of a case."""
    threads = str(case.threads)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OMP_WAIT_POLICY": case.omp_wait,
        "TORCHINDUCTOR_CACHE_DIR": cache_dir,
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    if case.omp_wait == "PASSIVE":
        environment["KMP_BLOCKTIME"] = "0"
    command = [sys.executable, "-m", "benchmarks.processor_choices", _CHILD, json.dumps(dataclasses.asdict(case))]
    children = [
        subprocess.Popen(  # noqa: S603 - our own module
            [*command, str(seconds)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(case.instances)
    ]
    for child in children:  # all are warm before one of them begins
        assert child.stdout is not None  # noqa: S101 - for the type checker: it was asked for
        child.stdout.readline()
    for child in children:
        assert child.stdin is not None  # noqa: S101 - as above
        child.stdin.write("go\n")
        child.stdin.flush()
    return sum(float(child.communicate()[0]) for child in children)


def _build(case: Case) -> Any:
    import torch  # noqa: PLC0415 - in children only

    if case.model == "mobilenet":
        from examples.mobilenet import build_mobilenet  # noqa: PLC0415 - as above

        module = build_mobilenet()
    else:
        from benchmarks.workloads.lite0 import LiteTask  # noqa: PLC0415 - as above

        module = LiteTask().build()
    module = module.eval().requires_grad_(False)
    if case.channels_last:
        module = module.to(memory_format=torch.channels_last)
    return torch.compile(module, dynamic=False) if case.compiled else module


def run_child(case: Case, seconds: float) -> None:
    """Say when warm, wait for the word, run, and print pictures per second."""
    import torch  # noqa: PLC0415 - in children only

    from model_store.host_memory import keep_freed_memory  # noqa: PLC0415 - as above

    torch.set_num_threads(case.threads)
    if case.keeps_memory:
        keep_freed_memory()
    module = _build(case)
    layout = torch.channels_last if case.channels_last else torch.contiguous_format
    inputs = torch.rand(BATCH, 3, SIDE, SIDE).contiguous(memory_format=layout)
    with torch.inference_mode():
        for _ in range(5):
            module(inputs)
        print("warm", flush=True)
        sys.stdin.readline()
        count, began = 0, time.perf_counter()
        while time.perf_counter() < began + seconds:
            module(inputs)
            count += BATCH
        print(count / (time.perf_counter() - began), flush=True)


def main() -> None:
    """Measure every case, or be a child of one."""
    if sys.argv[1:2] == [_CHILD]:
        run_child(Case(**json.loads(sys.argv[2])), float(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=("mobilenet", "lite0"), default="mobilenet")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    cases = list_cases(os.cpu_count() or 1, options.model)
    rates: dict[str, list[float]] = {name: [] for name in cases}
    with tempfile.TemporaryDirectory(prefix="headrace-compiled-") as cache_dir:
        for _ in range(options.rounds):
            for name, case in cases.items():
                rates[name].append(measure(case, options.seconds, cache_dir))
    table = Table(title=f"{options.model} at batch {BATCH}")
    for column in ("case", "pictures/s", "from", "to", "ratio"):
        table.add_column(column, justify="left" if column == "case" else "right")
    default = rates["default"]
    for name, found in rates.items():
        ratio = statistics.median(one / base for one, base in zip(found, default, strict=True))
        figures = (statistics.median(found), min(found), max(found))
        table.add_row(name, *(f"{figure:,.0f}" for figure in figures), f"{ratio:.2f}")
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
