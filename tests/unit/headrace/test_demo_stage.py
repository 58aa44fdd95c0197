"""The settings of the stage."""

from pathlib import Path

import yaml

from headrace.demo.stage import StagePaths, find_free_port, forget_settings, has_versions, stage_settings
from schemas.configuration import load_settings


def test_the_stage_writes_settings_that_the_worker_accepts(tmp_path: Path) -> None:
    addresses = {"HEADRACE_KAFKA__BOOTSTRAP": "127.0.0.1:1234", "HEADRACE_REDIS__URL": "redis://127.0.0.1:1/0"}
    paths = StagePaths(tmp_path, tmp_path / "worker.log")
    paths.configuration.write_text(yaml.safe_dump(stage_settings(addresses, paths, 9999)))
    settings = load_settings(paths.configuration, {})
    assert settings.kafka.bootstrap == "127.0.0.1:1234"
    assert (settings.worker.members, settings.model.instances, settings.model.threads) == (2, 1, 1)
    assert settings.store.root == tmp_path / "models"
    assert settings.health.port == 9999


def test_a_free_port_can_be_found() -> None:
    assert 0 < find_free_port() < 65_536


def test_settings_of_the_callers_environment_are_forgotten_and_nothing_else_is() -> None:
    environ = {"HEADRACE_KAFKA__BOOTSTRAP": "elsewhere:9092", "headrace_config": "x", "PATH": "/bin"}
    forget_settings(environ)
    assert environ == {"PATH": "/bin"}


def test_a_store_without_the_demos_versions_is_known(tmp_path: Path) -> None:
    assert not has_versions(tmp_path)
