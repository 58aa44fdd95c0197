"""The settings file of a benchmarked worker: what the run dictates, the workload's overlay, one more overlay. Pure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarks.contestants.assignment import Assignment
from benchmarks.contestants.catalogue import Contestant
from benchmarks.workloads.specification import VERSION

OVERLAYS = Path(__file__).parents[1] / "overlays"


def build_settings(task: Assignment, contestant: Contestant, models: Path, more: Mapping[str, Any]) -> dict[str, Any]:
    """The whole settings file. What the run dictates (topics, store, model) cannot be overlaid, all else can."""
    workload = task.spec
    settings: dict[str, Any] = {
        "batching": {"max_batch_size": task.batch_size},
        "worker": {"delivery": contestant.delivery.value},
    }
    if not contestant.is_default and workload.settings:
        settings = merge(settings, read_overlay(OVERLAYS / workload.settings))
    if contestant.overlay is not None:
        settings = merge(settings, read_overlay(contestant.overlay))
    dictated = {
        "kafka": {"bootstrap": task.bootstrap},
        "topics": {"requests": [task.requests], "results": task.results, "dead_letters": f"{task.results}-dead"},
        "store": {"root": str(models), "cache_dir": f"{task.folder}/cache"},
        "model": {
            "name": workload.name,
            "version": VERSION,
            "classes": {workload.model_class: workload.import_path},
        },
        "worker": {"group": task.group, "state_dir": f"{task.folder}/state"},
        "health": {"port": 0},
    }
    return merge(merge(settings, dictated), more)


def read_overlay(path: Path) -> dict[str, Any]:
    """A fragment of a settings file. Raises TypeError when it is none."""
    found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    if not isinstance(found, dict):
        raise TypeError(f"{path}: a settings file is a mapping of groups")
    return found


def merge(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """`upper` laid over `lower`, group by group; neither is changed."""
    merged = dict(lower)
    for name, value in upper.items():
        below = merged.get(name)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[name] = merge(below, value) if both else value  # type: ignore[arg-type]  # checked in `both`
    return merged
