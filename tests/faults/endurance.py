"""A long run without faults: two lanes, some requests with a deadline that passes, and nothing may drift.

`python -m tests.faults.endurance --minutes 30` starts a Kafka of its own, keeps the model at a steady share of what it
can do, and at the end compares the first and the last five minutes, the memory of every process over time, and the
worker's own counters with a recount of both topics. Exit code 1 unless all of it holds.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.local_stack.stack import LocalStack
from producers.outcomes import decode_outcome
from producers.result_reader import RecordReader
from schemas.records import Result
from tests.faults.conftest import Rig
from tests.faults.harness import FaultRun
from tests.faults.kafka_proxy import KafkaProxy
from tests.faults.load import LoadShape
from tests.faults.worker_process import Role, ask_health

SAMPLE_SECONDS = 10.0
KEPT_THROUGHPUT = 0.95
MEMORY_GROWTH_BYTES = 32 << 20
"""What a process may grow between the first third of the run and the last: allocators settle, leaks go on."""


@dataclass
class Observed:
    """What was seen over the run: per outcome its second and kind, and per process its memory over time."""

    answered: Counter[int] = field(default_factory=Counter)
    """Outcomes by second since the first."""
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Outcomes by kind and lane."""
    memory: dict[str, list[int]] = field(default_factory=dict)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description="run for long, then look for drift")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, default=400.0, help="requests a second in the bulk lane")
    parser.add_argument("--urgent-rate", type=float, default=20.0, help="requests a second in the urgent lane")
    parser.add_argument("--expiring", type=float, default=0.05, help="share of requests whose deadline has passed")
    parser.add_argument("--window-minutes", type=float, default=5.0, help="length of the first and last window")
    return parser.parse_args(arguments)


def expiring(share: float) -> Callable[[int], float | None]:
    """Every so many requests are sent with a deadline that has passed when they are read."""
    every = round(1 / share) if share else 0
    return lambda number: 0.0 if every and number % every == 0 else None


def watch_memory(run: FaultRun, minutes: float, observed: Observed) -> None:
    """Sample the resident memory of members and model processes until the time is up."""
    over_at = time.monotonic() + minutes * 60
    while time.monotonic() < over_at:
        time.sleep(min(SAMPLE_SECONDS, max(0.0, over_at - time.monotonic())))
        for role in (Role.MEMBER, Role.MODEL_PROCESS):
            for process in run.worker.processes(role):
                name = f"{role.name.lower()} {process.pid}"
                observed.memory.setdefault(name, []).append(process.memory_info().rss)
        print(f"{(over_at - time.monotonic()) / 60:.1f} minutes to go", flush=True)


def recount(run: FaultRun, observed: Observed, begin_seconds: float) -> None:
    """Count every outcome that lies in Kafka, by second, kind and lane."""
    topics = run.topics
    with RecordReader(run.rig.direct, [topics.results, topics.dead_letters], start="earliest") as reader:
        for record in reader.read_until(reader.end_offsets(), timeout_seconds=60):
            outcome = decode_outcome(record, dead_letters_topic=topics.dead_letters)
            kind = str(outcome.status) if isinstance(outcome, Result) else "dead_letter"
            lane = str(topics.priorities.get(outcome.source.topic, 0))
            observed.kinds[kind, lane] += 1
            observed.answered[int(record.timestamp_ms / 1000 - begin_seconds)] += 1


def read_counters(run: FaultRun) -> Counter[tuple[str, str]]:
    """The worker's own count of outcomes by kind and lane, over all slots."""
    text = ask_health(run.worker.log, "metrics")[1]
    found: Counter[tuple[str, str]] = Counter()
    for labels, value in re.findall(r"^headrace_outcomes_total\{(.*?)\} (\S+)$", text, re.MULTILINE):
        named = dict(re.findall(r'(\w+)="(.*?)"', labels))
        found[named["kind"], named["lane"]] += int(float(value))
    return found


def find_drift(observed: Observed, counted: Counter[tuple[str, str]], seconds: int, window: int) -> list[str]:
    """Return what did not hold, a line each."""
    found = []
    first = sum(observed.answered[second] for second in range(window))
    last = sum(observed.answered[second] for second in range(seconds - window, seconds))
    if last < KEPT_THROUGHPUT * first:
        found.append(f"throughput: {first} outcomes in the first window, {last} in the last")
    for name, sizes in observed.memory.items():
        third = max(1, len(sizes) // 3)
        growth = max(sizes[-third:]) - max(sizes[:third])
        if growth > MEMORY_GROWTH_BYTES:
            found.append(f"memory: {name} grew by {growth >> 20} MiB")
    if observed.kinds != counted:
        found.append(f"counters: {dict(counted)} by the worker, {dict(observed.kinds)} in Kafka")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the exit code."""
    options = parse(arguments)
    observed = Observed()
    with tempfile.TemporaryDirectory(prefix="headrace-endurance-") as folder, KafkaProxy() as proxy:
        path = Path(folder)
        with (
            LocalStack(path / "stack") as stack,
            FaultRun(Rig(stack, proxy), "endurance", path, partitions=8, proxied=False, urgent=True) as run,
        ):
            run.start_worker(members=2)
            deadline_seconds = expiring(options.expiring)
            bulk = LoadShape(options.rate, deadline_seconds=deadline_seconds)
            urgent = LoadShape(options.urgent_rate, deadline_seconds=deadline_seconds)
            with run.load(bulk) as load, run.load(urgent, topic=run.topics.requests[1]):
                watch_memory(run, options.minutes, observed)
            clean = run.finish(drain_seconds=120).report.clean
            time.sleep(1.0)  # the counters are reported twice a second
            counted = read_counters(run)
            recount(run, observed, load.begin_seconds)
    seconds = int(load.end_seconds - load.begin_seconds)
    drift = find_drift(observed, counted, seconds, int(options.window_minutes * 60))
    kinds = {f"{kind} lane {lane}": count for (kind, lane), count in sorted(observed.kinds.items())}
    memory = {name: f"{sizes[0] >> 20} to {sizes[-1] >> 20} MiB" for name, sizes in observed.memory.items()}
    print(json.dumps({"seconds": seconds, "outcomes": kinds, "memory": memory, "audit_clean": clean}, indent=2))
    for line in drift:
        print("NOT HELD:", line)
    return 0 if clean and not drift else 1


if __name__ == "__main__":
    sys.exit(main())
