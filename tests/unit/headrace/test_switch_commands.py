import re
import signal

import pytest

from headrace.cli import switch_commands
from headrace.cli.exit_codes import ExitCode
from model_store.switch_contract import SwitchView
from model_store.switch_request import DEFAULT_INSTANT
from model_store.timeline import SwitchMode, Timeline, TimelineEntry
from schemas.errors import ChecksumMismatchError
from tests.fakes.simulated_workers import MODEL, START_MS, SimulatedFleet, SimulatedWorker
from tests.unit.headrace.control_plane_rig import install_fleet, models


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> SimulatedFleet:
    made = SimulatedFleet(SimulatedWorker("w0", warm={"old"}), SimulatedWorker("w1", warm={"old"}))
    made.versions_door.activate(MODEL, "old", 0, START_MS - 10_000)
    made.pass_time(0.1)
    install_fleet(made, monkeypatch)
    return made


def timeline(fleet: SimulatedFleet) -> Timeline:
    stored = fleet.versions_door.read(MODEL)
    assert stored is not None
    return stored


def latest(fleet: SimulatedFleet) -> TimelineEntry:
    return timeline(fleet).entries[-1]


def test_a_version_is_prepared_and_armed_two_seconds_ahead(
    fleet: SimulatedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert models("activate", MODEL, "new", "--reason", "better on snow") == ExitCode.OK

    printed = capsys.readouterr()
    assert re.fullmatch(r"m new epoch 2 from 1970-01-01T00:16:4\d\.\d{3}Z\n", printed.out)
    assert printed.err.startswith("preparing new\n")
    assert "  w1: ready\n" in printed.err
    assert "known to every live worker, 2 of them" in printed.err
    entry = latest(fleet)
    assert (entry.mode, entry.author.reason) == (SwitchMode.EXACT, "better on snow")
    assert entry.effective_from_ms - entry.at_ms == DEFAULT_INSTANT.lead_ms
    assert "@" in entry.author.by


def test_a_refusal_exits_1_names_the_worker_and_changes_nothing(
    fleet: SimulatedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.workers[1].refuses = "weights.safetensors: wrong hash"

    assert models("activate", MODEL, "new") == ExitCode.FAILED

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "nothing has changed: worker w1 on host refused: weights.safetensors: wrong hash" in printed.err
    assert timeline(fleet).epoch == 1


def test_a_switch_that_is_called_off_exits_1_and_says_who(
    fleet: SimulatedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.workers[0].hears_after = 30

    assert models("activate", MODEL, "new") == ExitCode.FAILED

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "epoch 2 is called off, the old split goes on: not armed in time: w0" in printed.err
    assert dict(latest(fleet).split) == {"old": 1}


def test_a_split_from_now_on(fleet: SimulatedFleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert models("activate", MODEL, "old=90", "new=10", "--now") == ExitCode.OK

    assert capsys.readouterr().out == "m old 90%, new 10% epoch 2\n"
    assert latest(fleet).mode is SwitchMode.NOW


def test_an_own_instant_a_quorum_and_no_preparation(fleet: SimulatedFleet) -> None:
    fleet.workers[1].refuses = "no room"

    assert models("activate", MODEL, "new", "--at", "now+5s", "--quorum", "1") == ExitCode.OK
    assert latest(fleet).effective_from_ms - latest(fleet).at_ms == 5000
    fleet.pass_time(5)
    assert models("activate", MODEL, "third", "--no-prepare") == ExitCode.OK
    assert dict(latest(fleet).split) == {"third": 1}


@pytest.mark.parametrize(
    "arguments",
    [
        ["new", "--at", "now+2s", "--now"], ["new", "--at", "soon"], ["new", "--at", "now+1s"], ["v", "--quorum", "0"],
        ["a", "b"], ["a=1", "a=2"], ["../a"], ["new", "--reason", "a\nb"], ["new", "--prepare-timeout", "0"],
    ],
)  # fmt: skip
def test_what_cannot_work_is_a_usage_error_and_changes_nothing(fleet: SimulatedFleet, arguments: list[str]) -> None:
    assert models("activate", MODEL, *arguments) == ExitCode.USAGE
    assert timeline(fleet).epoch == 1


def test_a_version_that_is_not_sound_is_not_even_prepared(
    fleet: SimulatedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ChecksumMismatchError("weights.safetensors is altered")

    monkeypatch.setattr(switch_commands, "verify_versions", fail)

    assert models("activate", MODEL, "new") == ExitCode.USAGE
    assert fleet.workers_door.hints_sent == 0


def test_another_epoch_than_the_expected_one_exits_1(fleet: SimulatedFleet) -> None:
    assert models("activate", MODEL, "new", "--expected-epoch", "7") == ExitCode.FAILED
    assert timeline(fleet).epoch == 1


def test_ctrl_c_during_the_preparation_withdraws_the_candidate(
    fleet: SimulatedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    class InterruptingLines:
        def __init__(self, _: object) -> None:
            pass

        def __call__(self, view: SwitchView) -> None:
            if view.rows:
                assert fleet.workers_door.read_candidate(MODEL) is not None
                signal.raise_signal(signal.SIGHUP)

    monkeypatch.setattr("headrace.cli.switch_view.PlainSwitchLines", InterruptingLines)

    assert models("activate", MODEL, "new") == ExitCode.INTERRUPTED
    assert fleet.workers_door.read_candidate(MODEL) is None
    assert timeline(fleet).epoch == 1


def test_without_a_worker_the_first_version_is_active_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install_fleet(SimulatedFleet(), monkeypatch)

    assert models("activate", MODEL, "new") == ExitCode.OK

    printed = capsys.readouterr()
    assert printed.out == "m new epoch 1\n"
    assert "no worker of m reports" in printed.err


def test_epochs_that_begin_anew_are_warned_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = SimulatedFleet()
    install_fleet(made, monkeypatch)
    made.versions_door.put(MODEL, b"rubbish")

    assert models("activate", MODEL, "new") == ExitCode.USAGE
    assert models("activate", MODEL, "new", "--replace") == ExitCode.OK
    assert "epochs begin anew" in capsys.readouterr().err


def test_a_rollback_goes_back_at_once(fleet: SimulatedFleet, capsys: pytest.CaptureFixture[str]) -> None:
    models("activate", MODEL, "new", "--now")
    before = fleet.now

    assert models("rollback", MODEL, "--reason", "wrong labels") == ExitCode.OK

    assert capsys.readouterr().out.splitlines()[-1] == "m old epoch 3"
    assert (latest(fleet).mode, latest(fleet).author.reason) == (SwitchMode.NOW, "wrong labels")
    assert fleet.now - before < 0.1
    assert models("rollback", MODEL, "--to", "new", "--expected-epoch", "3") == ExitCode.OK
    assert dict(latest(fleet).split) == {"new": 1}


def test_a_rollback_that_is_not_confirmed_is_done_all_the_same(
    fleet: SimulatedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    models("activate", MODEL, "new", "--now")
    fleet.workers[1].hears_after = 30

    assert models("rollback", MODEL) == ExitCode.OK
    assert "stored, and not yet confirmed: not armed in time: w1" in capsys.readouterr().err


def test_a_rollback_to_nothing_is_a_usage_error(fleet: SimulatedFleet) -> None:
    assert models("rollback", MODEL) == ExitCode.USAGE
    assert models("rollback", MODEL, "--to", "never") == ExitCode.USAGE
    assert timeline(fleet).epoch == 1
