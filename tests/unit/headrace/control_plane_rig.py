"""The switching commands over simulated workers: the same doors and the same clock for all of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.cli import canary_command, history_commands, main, shadow_commands, switch_commands
from tests.fakes.fake_live_shadows import FakeLiveShadows
from tests.fakes.simulated_workers import SimulatedFleet


def install_fleet(fleet: SimulatedFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point the commands at the fleet; what they would verify in a store counts as sound."""

    @contextmanager
    def open_doors(_: Any) -> Iterator[tuple[Any, Any]]:
        yield fleet.versions_door, fleet.workers_door

    shadows = FakeLiveShadows(fleet.versions_door)

    @contextmanager
    def open_shadow_door(_: Any) -> Iterator[Any]:
        yield shadows

    monkeypatch.setattr(shadow_commands, "open_shadows", open_shadow_door)
    for module in (switch_commands, canary_command, history_commands):
        monkeypatch.setattr(module, "open_control_plane", open_doors)
    for module in (switch_commands, canary_command, shadow_commands):
        monkeypatch.setattr(module, "verify_versions", lambda *_: None)
    for module in (switch_commands, canary_command):
        monkeypatch.setattr(module, "real_clock", lambda: fleet.clock)
    monkeypatch.setattr(history_commands, "_now_ms", fleet.now_ms)


def models(*arguments: str) -> int:
    return main(["models", *arguments])
