from typing import Any

import pytest

from headrace.cli import history_commands
from headrace.cli.exit_codes import ExitCode
from model_store.timeline import Author
from model_store.worker_reports import Candidate, WorkerReport
from tests.fakes.simulated_workers import MODEL, START_MS, SimulatedFleet
from tests.unit.headrace.control_plane_rig import install_fleet, models

ANN = Author("ann@host", "better on snow")
CANDIDATE = Candidate("0" * 16, ("third",), "bob@host", 5)


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> SimulatedFleet:
    made = SimulatedFleet()
    install_fleet(made, monkeypatch)
    return made


def arm(fleet: SimulatedFleet) -> None:
    fleet.versions_door.activate(MODEL, "old", 0, START_MS - 10_000)
    fleet.versions_door.move(
        MODEL,
        lambda present: present.with_activation(
            {"old": 90, "new": 10}, 1, START_MS, effective_from_ms=START_MS + 1200, author=ANN
        ),
    )


@pytest.mark.parametrize("command", ["active", "history"])
def test_a_model_without_a_decision_exits_1(
    fleet: SimulatedFleet, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert models(command, MODEL) == ExitCode.FAILED
    assert "m: no active version" in capsys.readouterr().err


def test_the_active_version_comes_first_and_one_that_is_armed_after_it(
    fleet: SimulatedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    arm(fleet)

    assert models("active", MODEL) == ExitCode.OK

    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "m old epoch 1",
        "m old 90%, new 10% epoch 2 armed from 1970-01-01T00:16:41.200Z, in 1.2 s",
    ]
    assert printed.err == "no worker of m lives\n"
    fleet.pass_time(1.2)
    models("active", MODEL)
    assert capsys.readouterr().out == "m old 90%, new 10% epoch 2\n"


def test_what_was_called_off_is_not_shown_as_armed(fleet: SimulatedFleet, capsys: pytest.CaptureFixture[str]) -> None:
    arm(fleet)
    fleet.versions_door.move(MODEL, lambda present: present.with_called_off(2, START_MS))

    models("active", MODEL)

    assert capsys.readouterr().out == "m old epoch 1\n"


def test_every_worker_is_shown_with_what_it_serves_has_warm_and_prepares(
    fleet: SimulatedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    arm(fleet)
    fleet.workers_door.propose_candidate(MODEL, CANDIDATE)
    first = WorkerReport("g.w-0", 0, "host", 42, 2, ("old",), ("new", "old"), ready=CANDIDATE.id)
    fleet.workers_door.report_worker(MODEL, first)
    fleet.workers_door.report_worker(
        MODEL, WorkerReport("g.w-1", 1, "host", 43, 1).refusing(CANDIDATE.id, "[red]no room")
    )
    fleet.workers_door.put_report(MODEL, "g.w-2", b"rubbish")

    assert models("active", MODEL) == ExitCode.OK

    printed = " ".join(capsys.readouterr().out.split())
    assert "m third in preparation for bob@host" in printed
    assert "g.w-0 host 42 2 old new, old ready" in printed
    assert "g.w-1 host 43 1 refused: [red]no room" in printed
    assert "g.w-2 its report is not one" in printed


def test_the_history_says_who_when_what_and_how(fleet: SimulatedFleet, capsys: pytest.CaptureFixture[str]) -> None:
    arm(fleet)

    assert models("history", MODEL) == ExitCode.OK

    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "epoch", "decided", "by", "versions", "takes", "effect", "standing", "reason",
    ]  # fmt: skip
    assert " ".join(lines[1].split()) == (
        "2 1970-01-01T00:16:40.000Z ann@host old 90%, new 10% 1970-01-01T00:16:41.200Z armed better on snow"
    )
    assert " ".join(lines[2].split()) == "1 1970-01-01T00:16:30.000Z - old now active"


def test_the_history_shows_recorded_cuts_when_there_is_an_archive(
    fleet: SimulatedFleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Archive:
        def read_cuts(self, model: str) -> Any:
            assert model == MODEL
            return {1: {("requests", 1): 7, ("requests", 0): 41}}

    monkeypatch.setattr(history_commands, "find_cut_archive", lambda _: Archive())
    arm(fleet)

    models("history", MODEL)

    assert "requests[0]@41, requests[1]@7" in capsys.readouterr().out
