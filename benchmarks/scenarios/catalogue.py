"""All scenarios, in the order in which they run."""

from collections.abc import Mapping

from benchmarks.scenarios.batching import Batching
from benchmarks.scenarios.cache import Cache
from benchmarks.scenarios.lanes import Lanes
from benchmarks.scenarios.latency import Latency
from benchmarks.scenarios.overload import Overload
from benchmarks.scenarios.scenario import Scenario
from benchmarks.scenarios.throughput import Throughput
from benchmarks.workloads.specification import WORKLOADS

_ALL: tuple[Scenario, ...] = (
    *(Throughput(workload) for workload in WORKLOADS.values()),
    Latency(),
    Overload(),
    Lanes(),
    Cache(),
    Batching(),
)
SCENARIOS: Mapping[str, Scenario] = {one.name: one for one in _ALL}
QUICK = ("small", "frames")
