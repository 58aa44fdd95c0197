"""What the machine is, and what else runs on it."""

import contextlib
import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psutil

from schemas.settings import cores

QUIET_CORES = 0.15
"""Foreign work on more cores than this marks a round: what was measured beside it is not to be trusted."""
_SETTLE_SECONDS = 0.5
_PACKAGES = ("headrace", "torch", "confluent-kafka", "kafka-python", "numpy", "simplejpeg", "msgspec")


def describe_machine() -> dict[str, Any]:
    """Cores, memory, system and the versions that matter."""
    return {
        "cores": cores(),
        "processor": _read_processor(),
        "memory_gib": round(psutil.virtual_memory().total / (1 << 30), 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{name: _read_version(name) for name in _PACKAGES},
    }


def measure_idle_load() -> float:
    """Cores that are busy while nothing of ours runs but the idle broker, over half a second."""
    before = _busy_seconds()
    time.sleep(_SETTLE_SECONDS)
    return (_busy_seconds() - before) / _SETTLE_SECONDS


class Neighbours:
    """Processor time that others use during a `with` block. Ours is what this process and its descendants use.

    Contestants must live through the block or be waited for by their parents: what ends as an orphan is foreign.
    """

    def __init__(self) -> None:
        self.foreign_cores = 0.0

    def __enter__(self) -> "Neighbours":
        self._began, self._foreign = time.monotonic(), _busy_seconds() - _our_seconds()
        return self

    def __exit__(self, *_: object) -> None:
        foreign = _busy_seconds() - _our_seconds() - self._foreign
        self.foreign_cores = max(0.0, foreign / (time.monotonic() - self._began))


def _our_seconds() -> float:
    ourselves = psutil.Process()
    total = 0.0
    for process in (ourselves, *ourselves.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # Guest time is part of user time already.
    return float(sum(times) - idle - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0))


def _read_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _read_processor() -> str:
    if os.path.exists("/proc/cpuinfo"):  # noqa: PTH110 - a device of the kernel, not a file of ours
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - as above
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    return platform.processor()
