"""`headrace models shadow`, and what `active` and `history` say of one."""

from typing import Any

import pytest

from headrace.cli import shadow_commands
from headrace.cli.exit_codes import ExitCode
from model_store.worker_reports import ShadowReport, WorkerReport
from producers.topics import TopicAdmin
from schemas.errors import ConfigurationError
from tests.fakes.simulated_workers import MODEL, START_MS, SimulatedFleet
from tests.unit.headrace.control_plane_rig import install_fleet, models


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> SimulatedFleet:
    made = SimulatedFleet()
    install_fleet(made, monkeypatch)
    monkeypatch.setattr(TopicAdmin, "start", lambda self: self)
    monkeypatch.setattr(TopicAdmin, "require", lambda *_: ())
    made.versions_door.activate(MODEL, "old", 0, START_MS - 10_000)
    return made


def test_a_shadow_is_started_shown_beside_what_answers_and_stopped(
    fleet: SimulatedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert models("shadow", MODEL, "new", "--share", "12.5", "--reason", "try it") == ExitCode.OK
    said = capsys.readouterr().out
    assert said.startswith("m new shadows 12.5% of the keys since ")
    assert said.endswith(": try it\n")
    report = WorkerReport("g.w-0", 0, "host", 7, 1, ("old",), ("old",), shadow=ShadowReport("new", "runs"))
    fleet.workers_door.report_worker(MODEL, report)
    for command in ("active", "history"):
        assert models(command, MODEL) == ExitCode.OK
        printed = capsys.readouterr().out
        assert said in printed
        assert ("new: runs" in printed) == (command == "active")
    assert models("shadow", MODEL, "--stop") == ExitCode.OK
    assert models("shadow", MODEL, "--stop") == ExitCode.FAILED
    assert "m: no version is shadowed" in capsys.readouterr().err
    models("history", MODEL)
    assert "shadows" not in capsys.readouterr().out


def test_a_shadow_that_answers_by_now_is_told_as_such(
    fleet: SimulatedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    models("shadow", MODEL, "new")
    fleet.versions_door.activate(MODEL, "new", 1, START_MS)
    models("active", MODEL)
    assert "which answers itself now: nothing is copied" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("old",), ExitCode.USAGE, "version old of m answers already"),
        (("new", "--share", "0"), ExitCode.USAGE, "share 0.0: more than 0 and at most 100"),
        (("../up",), ExitCode.USAGE, "version '../up'"),
        ((), ExitCode.USAGE, "VERSION is missing"),
        (("new", "--stop"), ExitCode.USAGE, "--stop takes no version"),
    ],
)
def test_what_cannot_be_is_refused_and_says_what_would_be_right(
    fleet: SimulatedFleet,
    arguments: tuple[str, ...],
    code: ExitCode,
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert models("shadow", MODEL, *arguments) == code
    assert words in capsys.readouterr().err


def test_another_versions_shadow_has_to_be_stopped_first(
    fleet: SimulatedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    models("shadow", MODEL, "new")
    assert models("shadow", MODEL, "newer") == ExitCode.FAILED
    assert "has new of m shadowed: `headrace models shadow m --stop` ends that" in capsys.readouterr().err


def test_without_its_topic_nothing_is_started(
    fleet: SimulatedFleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: TopicAdmin, names: list[str]) -> Any:
        raise ConfigurationError(f"no topic {names[0]}: run `headrace topics create`")

    monkeypatch.setattr(TopicAdmin, "require", refuse)
    assert models("shadow", MODEL, "new") == ExitCode.USAGE
    assert "no topic headrace.shadow: run `headrace topics create`" in capsys.readouterr().err
    with shadow_commands.open_shadows(None) as door:  # type: ignore[arg-type]  # the rig's
        assert door.read(MODEL) is None
