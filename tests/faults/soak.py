"""A soak: SIGKILL of a random member or model process every few seconds under a steady load, then an audit.

`python -m tests.faults.soak --seconds 120 --rate 300 --partitions 8 --every 5` starts a Kafka of its own and prints the
seed, what it killed, the pauses and the verdict; the exit code is 1 unless the audit is clean.
"""

import argparse
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from headrace.local_stack.stack import LocalStack
from tests.faults.conftest import Rig
from tests.faults.harness import FaultRun, Outcome
from tests.faults.kafka_proxy import KafkaProxy
from tests.faults.load import LoadShape
from tests.faults.worker_process import Role

VICTIMS = (Role.MEMBER, Role.MODEL_PROCESS)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="kill processes of a worker at random and audit what it answered")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long the load lasts")
    parser.add_argument("--rate", type=float, default=300.0, help="requests a second")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between kills")
    parser.add_argument("--victims", choices=[*(role.name.lower() for role in VICTIMS), "both"], default="both")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run's choices")
    return parser.parse_args(arguments)


def kill_at_random(run: FaultRun, options: argparse.Namespace, chance: random.Random) -> list[tuple[float, str]]:
    """Kill until the time is up; returns when and what."""
    kills: list[tuple[float, str]] = []
    roles = [role for role in VICTIMS if options.victims in {role.name.lower(), "both"}]
    end = time.monotonic() + options.seconds
    while time.monotonic() + options.every < end:
        time.sleep(options.every)
        role = chance.choice(roles)
        alive = run.worker.wait_for(role, 1, 60)
        victim = run.worker.kill(role, chance.randrange(len(alive)))
        kills.append((time.time(), f"{role.name.lower()} {victim.pid}"))
        print(f"killed {kills[-1][1]}", flush=True)
    time.sleep(max(0.0, end - time.monotonic()))
    return kills


def report(outcome: Outcome, kills: Sequence[tuple[float, str]], end_seconds: float, worker_log: str) -> bool:
    """Print the pauses, how long models took to load, and the verdict; returns whether it is clean."""
    times = [at for at, _ in kills]
    pauses = [outcome.longest_pause_between(begin, end) for begin, end in pairwise([*times, end_seconds])]
    if pauses:
        ninety_ninth = sorted(pauses)[min(len(pauses) - 1, int(len(pauses) * 0.99))]
        print(
            f"longest pause of any partition per kill, {len(pauses)} kills: median {statistics.median(pauses):.2f} s,"
            f" p99 {ninety_ninth:.2f} s, max {max(pauses):.2f} s"
        )
    loads = [float(seconds) for seconds in re.findall(r'"seconds": ([0-9.]+), "warmed"', worker_log)]
    if loads:
        print(f"loads of a model process: median {statistics.median(loads):.2f} s, max {max(loads):.2f} s")
    reports = [one for one in (outcome.report, outcome.acknowledged) if one is not None]
    for one in reports:
        print(one.to_json())
    return all(one.clean for one in reports)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the soak; returns the exit code."""
    options = parse(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="headrace-soak-") as folder, KafkaProxy() as proxy:
        path = Path(folder)
        with (
            LocalStack(path / "stack") as stack,
            FaultRun(Rig(stack, proxy), "soak", path, partitions=options.partitions, proxied=False) as run,
        ):
            run.start_worker(members=options.members)
            with run.load(LoadShape(records_per_second=options.rate)) as load:
                kills = kill_at_random(run, options, random.Random(seed))
            outcome = run.finish(load, drain_seconds=120)
            clean = report(outcome, kills, load.end_seconds, run.worker.log.read_text())
            print(f"seed {seed}: {load.acknowledged} requests, {len(kills)} kills, {'clean' if clean else 'NOT CLEAN'}")
            if not clean:
                print(outcome.worker_log)
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
