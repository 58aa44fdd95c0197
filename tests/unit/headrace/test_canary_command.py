import signal
from typing import Any

import pytest

from headrace.cli import canary_command
from headrace.cli.exit_codes import ExitCode
from model_store.timeline import Author, Timeline
from tests.fakes.played_outcomes import Behaviour, PlayedOutcomes
from tests.fakes.simulated_workers import MODEL, START_MS, SimulatedFleet, SimulatedWorker
from tests.unit.headrace.control_plane_rig import install_fleet, models

SHORT = ("--stages", "10,100", "--window", "10s")


class OpenedOutcomes(PlayedOutcomes):
    def __enter__(self) -> "OpenedOutcomes":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> SimulatedFleet:
    made = SimulatedFleet(SimulatedWorker("w0", warm={"old"}))
    made.versions_door.activate(MODEL, "old", 0, START_MS - 10_000)
    made.pass_time(0.1)
    install_fleet(made, monkeypatch)
    return made


@pytest.fixture
def outcomes(fleet: SimulatedFleet, monkeypatch: pytest.MonkeyPatch) -> OpenedOutcomes:
    opened = OpenedOutcomes(fleet)
    monkeypatch.setattr(canary_command, "open_outcomes", lambda _: opened)
    return opened


def timeline(fleet: SimulatedFleet) -> Timeline:
    stored = fleet.versions_door.read(MODEL)
    assert stored is not None
    return stored


def test_a_good_version_is_promoted(
    fleet: SimulatedFleet, outcomes: OpenedOutcomes, capsys: pytest.CaptureFixture[str]
) -> None:
    assert models("canary", MODEL, "new", *SHORT, "--reason", "better on snow") == ExitCode.OK

    printed = capsys.readouterr()
    assert printed.out == "m new epoch 3\n"
    lines = printed.err.splitlines()
    assert lines[0] == "preparing new, old"
    watched = [line for line in lines if line.startswith("stage 1 of 2: new 10%: ")]
    assert 6 <= len(watched) <= 9
    assert watched[-1].endswith("no worse than 10 s can show")
    assert "% errors, p95 " in watched[-1]
    assert "; old 90%: " in watched[-1]
    assert timeline(fleet).entries[-1].author.reason == "canary new at 100%: better on snow"


def test_a_bad_version_is_halted_with_a_reason_and_exit_1(
    fleet: SimulatedFleet, outcomes: OpenedOutcomes, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes.behaviours = {"new": Behaviour(error_rate=0.3)}

    assert models("canary", MODEL, "new", *SHORT) == ExitCode.FAILED

    printed = capsys.readouterr()
    assert printed.out == "m old epoch 3\n"
    assert "headrace: canary new halted at 10%: error rate " in printed.err
    assert printed.err.endswith("; back to old\n")


def test_the_options_reach_the_decider(fleet: SimulatedFleet, outcomes: OpenedOutcomes) -> None:
    outcomes.behaviours = {"new": Behaviour(error_rate=0.3, latency_ms=80.0, quality=0.7)}
    lenient = ("--max-error-rate-increase", "0.5", "--max-latency-ratio", "3", "--min-results", "100")

    quality = ("--quality", "/confidence", "--max-quality-drop")
    assert models("canary", MODEL, "new", *SHORT, *lenient, *quality, "0.2") == ExitCode.OK
    fleet.versions_door.activate(MODEL, "old", None, fleet.now_ms())
    assert models("canary", MODEL, "new", *SHORT, *lenient, *quality, "0.03") == ExitCode.FAILED


def test_little_traffic_exits_1(
    fleet: SimulatedFleet, outcomes: OpenedOutcomes, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes.per_second = 1.0

    assert models("canary", MODEL, "new", *SHORT) == ExitCode.FAILED

    said = capsys.readouterr().err
    assert "too little traffic, one more window: " in said
    assert "canary new stopped at 10%: too little traffic in 2 windows: " in said


def test_ctrl_c_goes_back_and_exits_130(
    fleet: SimulatedFleet, outcomes: OpenedOutcomes, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        outcomes.on_poll = lambda: None
        signal.raise_signal(signal.SIGTERM)

    outcomes.on_poll = interrupt

    assert models("canary", MODEL, "new", *SHORT) == ExitCode.INTERRUPTED

    assert "canary new interrupted at 10%: Ctrl-C; back to old" in capsys.readouterr().err
    assert dict(timeline(fleet).entries[-1].split) == {"old": 1}
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_second_ctrl_c_while_redis_is_away_says_where_to_look(
    fleet: SimulatedFleet,
    outcomes: OpenedOutcomes,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    def interrupt_and_break() -> None:
        monkeypatch.setattr(fleet.versions_door, "read", interrupt)
        raise KeyboardInterrupt

    outcomes.on_poll = interrupt_and_break

    assert models("canary", MODEL, "new", *SHORT) == ExitCode.INTERRUPTED
    assert "interrupted; `headrace models active m` tells what answers now" in capsys.readouterr().err


def test_a_kafka_that_is_away_exits_3(
    fleet: SimulatedFleet, outcomes: OpenedOutcomes, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes.outages = [(4.0, 1000.0)]

    assert models("canary", MODEL, "new", *SHORT) == ExitCode.UNAVAILABLE
    assert "canary new given up at 10%: Kafka has not answered for 1" in capsys.readouterr().err


def test_somebody_elses_decision_exits_1_and_stands(
    fleet: SimulatedFleet, outcomes: OpenedOutcomes, capsys: pytest.CaptureFixture[str]
) -> None:
    def decide() -> None:
        fleet.versions_door.move(
            MODEL, lambda present: present.with_activation("third", 2, fleet.now_ms(), author=Author("bob"))
        )

    fleet.at.append((6.0, decide))

    assert models("canary", MODEL, "new", *SHORT) == ExitCode.FAILED

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "canary new overtaken at 10%: bob made epoch 3; what was decided stands" in printed.err


def test_a_refusal_exits_1_and_nothing_has_changed(
    fleet: SimulatedFleet, outcomes: OpenedOutcomes, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet.workers[0].refuses = "wrong hash"

    assert models("canary", MODEL, "new", *SHORT) == ExitCode.FAILED
    assert "refused at 10%: worker w0 on host refused: wrong hash; nothing has changed" in capsys.readouterr().err
    assert timeline(fleet).epoch == 1


def test_a_way_back_that_is_not_confirmed_is_said(
    fleet: SimulatedFleet, outcomes: OpenedOutcomes, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes.behaviours = {"new": Behaviour(error_rate=0.3)}
    fleet.at.append((3.0, lambda: setattr(fleet.workers[0], "hears_after", 60.0)))

    assert models("canary", MODEL, "new", *SHORT) == ExitCode.FAILED
    assert "back to old, which not every worker has confirmed yet" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--stages", "1,10"], ["--window", "60"], ["--min-results", "0"], ["--max-quality-drop", "0.1"],
        ["--quality", ""], ["--max-latency-ratio", "0.5"], ["--reason", "a\nb"],
    ],
)  # fmt: skip
def test_what_cannot_work_is_a_usage_error(
    fleet: SimulatedFleet, outcomes: OpenedOutcomes, arguments: list[str]
) -> None:
    assert models("canary", MODEL, "new", *arguments) == ExitCode.USAGE
    assert models("canary", MODEL, "old") == ExitCode.USAGE
    assert timeline(fleet).epoch == 1
