"""The settings file that a profile ends with: what was chosen, merged into a configuration, with what was measured."""

from pathlib import Path
from typing import Any

import yaml

from schemas.errors import ConfigurationError
from stream_workers.profiling.choice import Choice, Goal
from stream_workers.profiling.service_curve import ServiceCurve
from stream_workers.profiling.setups import Candidate

_MAX_CONFIG_BYTES = 1 << 20


def chosen_values(candidate: Candidate, *, with_version: bool) -> dict[str, dict[str, Any]]:
    """The settings that a candidate stands for; the version only when several were compared."""
    setup, wait = candidate.setup, candidate.max_wait_ms
    model: dict[str, Any] = {"version": setup.version} if with_version else {}
    return {
        "model": {**model, "instances": setup.instances, "threads": setup.threads},
        "batching": {
            "max_batch_size": candidate.max_batch_size,
            "max_wait_ms": wait,
            "slots": setup.slots,
        },
    }


def render(choice: Choice, goal: Goal, curve: ServiceCurve, base: dict[str, Any], *, with_version: bool) -> str:
    """Return the YAML text: the configuration `base` with the chosen values, and comments on what was measured."""
    merged = dict(base)
    for group, values in chosen_values(choice.candidate, with_version=with_version).items():
        merged[group] = {**(base.get(group) or {}), **values}
    lines = [f"# {line}" if line else "#" for line in describe(choice, goal, curve)]
    return "\n".join(lines) + "\n" + yaml.safe_dump(merged, sort_keys=False, allow_unicode=True)


def describe(choice: Choice, goal: Goal, curve: ServiceCurve) -> list[str]:
    """Say what was measured and what follows from it, a line each."""
    expected, setup = choice.at_rate, choice.candidate.setup
    fixed, per_record = curve.fixed_seconds * 1000, curve.per_record_seconds * 1000
    sizes = ", ".join(f"{one.batch_size}: {one.median * 1000:.2f}" for one in curve.measured)
    return [
        "Written by `headrace profile`; holds for this model, these samples and this machine.",
        f"Asked for: {goal.rate:g} records/s with a p99 of at most {goal.p99_seconds * 1000:g} ms.",
        f"Measured, {setup.describe()}: service time = {fixed:.2f} ms + {per_record:.3f} ms per record",
        f"(misfit up to {curve.worst_misfit:.0%}); median ms by batch size: {sizes}.",
        f"Expected at {expected.rate:.0f}/s: {expected.describe()}.",
        f"Largest rate within the target: {choice.largest_rate:.0f}/s. Kafka and the member's own work come on top.",
    ]


def read_base(path: Path | None) -> dict[str, Any]:
    """Return the values of the configuration that the choice is merged into; empty without one.

    The file has been read as settings before, so it is a mapping of groups. Raises ConfigurationError when it is gone.
    """
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            values = yaml.safe_load(file.read(_MAX_CONFIG_BYTES))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigurationError(f"configuration file {path}: {error}") from None
    return dict(values or {})


def write_text(path: Path, text: str) -> None:
    """Write the file. Raises ConfigurationError when it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"--write {path}: {error.strerror}") from None
