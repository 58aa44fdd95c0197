import itertools
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from model_store.canary.canary import Canary
from model_store.canary.contract import CanaryOutcome, CanaryResult, CanaryView
from model_store.canary.plan import CanaryPlan, Thresholds
from model_store.switch_contract import SwitchResult
from model_store.timeline import MAX_REASON_CHARS, Author, SwitchMode, Timeline, TimelineEntry
from model_store.worker_reports import Candidate
from schemas.errors import ConfigurationError, PointerConflictError, UnavailableError
from tests.fakes.played_outcomes import Behaviour, PlayedOutcomes
from tests.fakes.simulated_workers import MODEL, START_MS, Interruptible, SimulatedFleet, SimulatedWorker

ANN = Author("ann@host", "better on snow")
PLAN = CanaryPlan("new", (10, 50, 100), 10.0)
GOOD = Behaviour(error_rate=0.01)


@pytest.fixture
def fleet() -> SimulatedFleet:
    made = SimulatedFleet(SimulatedWorker("w0", warm={"old"}), SimulatedWorker("w1", warm={"old"}))
    made.versions_door.activate(MODEL, "old", 0, START_MS - 10_000)
    made.pass_time(0.1)
    return made


class Rig:
    """A canary of `new` over played traffic."""

    def __init__(self, fleet: SimulatedFleet, new: Behaviour = GOOD, **traffic: Any) -> None:
        self.fleet = fleet
        self.outcomes = PlayedOutcomes(fleet, {"old": GOOD, "new": new}, **traffic)
        self.views: list[Any] = []
        self.on_show: Callable[[Any], None] = self.views.append

    def run(self, plan: CanaryPlan = PLAN) -> CanaryOutcome:
        versions: Any = Interruptible(self.fleet.versions_door, self.fleet)
        workers: Any = Interruptible(self.fleet.workers_door, self.fleet)
        canary = Canary(MODEL, versions, workers, self.outcomes, self.fleet.clock, self.on_show)
        return canary.run(plan, ANN)


def entries(fleet: SimulatedFleet) -> tuple[TimelineEntry, ...]:
    stored = fleet.versions_door.read(MODEL)
    assert stored is not None
    return stored.entries


def splits(fleet: SimulatedFleet) -> list[dict[str, int]]:
    return [dict(entry.split) for entry in entries(fleet)]


def test_a_good_version_goes_through_all_stages(fleet: SimulatedFleet) -> None:
    rig = Rig(fleet)

    outcome = rig.run()

    assert (outcome.ending.result, outcome.share) == (CanaryResult.PROMOTED, 100)
    assert splits(fleet) == [{"old": 1}, {"old": 90, "new": 10}, {"old": 50, "new": 50}, {"new": 1}]
    stages = entries(fleet)[1:]
    assert all(entry.mode is SwitchMode.EXACT for entry in stages)
    assert [entry.author.reason for entry in stages] == [
        f"canary new at {share}%: better on snow" for share in (10, 50, 100)
    ]
    gaps = [later.effective_from_ms - entry.effective_from_ms for entry, later in itertools.pairwise(stages)]
    assert all(12_000 <= gap < 13_000 for gap in gaps)
    assert outcome.entry == stages[-1]


def test_workers_prepare_once(fleet: SimulatedFleet) -> None:
    proposed = []
    propose = fleet.workers_door.propose_candidate
    fleet.workers_door.propose_candidate = lambda model, candidate: (  # type: ignore[method-assign]
        proposed.append(candidate.versions),
        propose(model, candidate),
    )[1]

    Rig(fleet).run()

    assert proposed == [("new", "old")]


@pytest.mark.parametrize(
    ("new", "word"),
    [
        (Behaviour(error_rate=0.3), "error rate"), (Behaviour(expired_rate=0.3), "error rate"),
        (Behaviour(latency_ms=150.0), "latency"), (Behaviour(quality=0.5), "quality"),
    ],
)  # fmt: skip
def test_a_bad_version_is_halted_within_the_window_and_the_one_before_is_back(
    fleet: SimulatedFleet, new: Behaviour, word: str
) -> None:
    plan = CanaryPlan("new", (10, 50, 100), 10.0, quality_path=("confidence",))

    outcome = Rig(fleet, new).run(plan)

    assert (outcome.ending.result, outcome.share) == (CanaryResult.HALTED, 10)
    assert outcome.ending.reason.startswith(word)
    assert splits(fleet) == [{"old": 1}, {"old": 90, "new": 10}, {"old": 1}]
    stage, back = entries(fleet)[1:]
    assert back.mode is SwitchMode.NOW
    assert back.at_ms - stage.effective_from_ms <= 10_500
    assert back.author.by == "ann@host"
    assert back.author.reason.startswith(f"canary halted at 10%: {word}")
    assert (outcome.entry, outcome.confirmation) == (back, SwitchResult.DONE)
    assert all(worker.epoch == back.epoch for worker in fleet.workers)


def test_a_version_that_turns_bad_in_a_later_stage_goes_back_to_the_start(fleet: SimulatedFleet) -> None:
    rig = Rig(fleet)
    worse = {"old": GOOD, "new": Behaviour(error_rate=0.2)}
    fleet.at.append((18.0, lambda: setattr(rig.outcomes, "behaviours", worse)))

    outcome = rig.run()

    assert (outcome.ending.result, outcome.share) == (CanaryResult.HALTED, 50)
    assert splits(fleet)[-2:] == [{"old": 50, "new": 50}, {"old": 1}]


def test_too_little_traffic_waits_a_second_window_and_goes_back(fleet: SimulatedFleet) -> None:
    outcome = Rig(fleet, Behaviour(error_rate=1.0), per_second=20).run()

    assert outcome.ending.result is CanaryResult.STARVED
    assert "too little traffic in 2 windows" in outcome.ending.reason
    stage, back = entries(fleet)[1:]
    assert dict(back.split) == {"old": 1}
    assert 20_000 <= back.at_ms - stage.effective_from_ms < 21_000


def test_workers_that_do_not_split_are_told_of(fleet: SimulatedFleet) -> None:
    outcome = Rig(fleet, splits=False).run()

    assert outcome.ending.result is CanaryResult.STARVED
    assert "results came from the other version than their key's" in outcome.ending.reason


def test_results_of_other_epochs_and_models_do_not_count(fleet: SimulatedFleet) -> None:
    rig = Rig(fleet, Behaviour(error_rate=1.0))
    poll = rig.outcomes.poll

    def poll_foreign(timeout_seconds: float) -> list[Any]:
        seen = poll(timeout_seconds)
        return [replace(one, epoch=one.epoch - 1) for one in seen] + [replace(one, model="other") for one in seen]

    rig.outcomes.poll = poll_foreign  # type: ignore[method-assign]

    assert rig.run().ending.result is CanaryResult.STARVED


def test_ctrl_c_goes_back_at_once(fleet: SimulatedFleet) -> None:
    rig = Rig(fleet)

    def interrupt() -> None:
        if fleet.now > 5:
            rig.outcomes.on_poll = lambda: None
            raise KeyboardInterrupt

    rig.outcomes.on_poll = interrupt

    outcome = rig.run()

    assert (outcome.ending.result, outcome.share) == (CanaryResult.INTERRUPTED, 10)
    assert splits(fleet) == [{"old": 1}, {"old": 90, "new": 10}, {"old": 1}]
    assert entries(fleet)[-1].mode is SwitchMode.NOW


def test_ctrl_c_while_a_later_stage_is_armed_goes_back_to_the_start(fleet: SimulatedFleet) -> None:
    rig = Rig(fleet)
    armed = [False]

    def interrupt(view: Any) -> None:
        if getattr(view, "stage", "") == "arming epoch 3" and not armed[0]:
            armed[0] = True
            raise KeyboardInterrupt

    rig.on_show = interrupt

    outcome = rig.run()

    assert outcome.ending.result is CanaryResult.INTERRUPTED
    assert splits(fleet)[-1] == {"old": 1}
    assert outcome.entry == entries(fleet)[-1]


def test_ctrl_c_before_anything_was_changed_changes_nothing(fleet: SimulatedFleet) -> None:
    rig = Rig(fleet)

    def interrupt(view: Any) -> None:
        if view.rows:
            raise KeyboardInterrupt

    rig.on_show = interrupt

    with pytest.raises(KeyboardInterrupt):
        rig.run()
    assert len(entries(fleet)) == 1
    assert fleet.workers_door.read_candidate(MODEL) is None


def test_ctrl_c_during_the_way_back_does_not_keep_it_from_going_back(fleet: SimulatedFleet) -> None:
    rig = Rig(fleet, Behaviour(error_rate=0.5))
    interrupted = [False]

    def interrupt(view: Any) -> None:
        if str(view.stage).startswith("arming epoch 3") and not interrupted[0]:
            interrupted[0] = True
            raise KeyboardInterrupt

    rig.on_show = interrupt

    outcome = rig.run()

    assert (interrupted, outcome.ending.result) == ([True], CanaryResult.HALTED)
    assert splits(fleet)[-1] == {"old": 1}


def test_a_fault_of_the_command_itself_goes_back_before_it_is_raised(fleet: SimulatedFleet) -> None:
    rig = Rig(fleet)

    def fail() -> None:
        raise ZeroDivisionError

    rig.outcomes.on_poll = fail

    with pytest.raises(ZeroDivisionError):
        rig.run()
    assert splits(fleet) == [{"old": 1}, {"old": 90, "new": 10}, {"old": 1}]


def test_somebody_elses_decision_ends_it_and_stands(fleet: SimulatedFleet) -> None:
    def decide() -> None:
        fleet.versions_door.move(
            MODEL, lambda present: present.with_activation("third", present.epoch, fleet.now_ms(), author=Author("bob"))
        )

    fleet.at.append((6.0, decide))

    outcome = Rig(fleet).run()

    assert (outcome.ending.result, outcome.entry) == (CanaryResult.OVERTAKEN, None)
    assert outcome.ending.reason == "bob made epoch 3"
    assert splits(fleet)[-1] == {"third": 1}


def test_somebody_elses_decision_during_the_way_back_stands(fleet: SimulatedFleet) -> None:
    rig = Rig(fleet, Behaviour(error_rate=0.5))
    stored_move = fleet.versions_door.move

    def move(model: str, change: Callable[[Timeline], Timeline], *, replace: bool = False) -> Timeline:
        if len(entries(fleet)) == 2:
            stored_move(
                model, lambda present: present.with_activation("third", 2, fleet.now_ms(), author=Author("bob"))
            )
        return stored_move(model, change, replace=replace)

    fleet.versions_door.move = move  # type: ignore[method-assign]

    outcome = rig.run()

    assert outcome.ending.result is CanaryResult.OVERTAKEN
    assert outcome.ending.reason.startswith("error rate")
    assert splits(fleet)[-1] == {"third": 1}


def test_a_redis_that_lost_the_decision_ends_it(fleet: SimulatedFleet) -> None:
    fleet.at.append((6.0, fleet.versions_door.values.clear))

    outcome = Rig(fleet).run()

    assert outcome.ending.result is CanaryResult.OVERTAKEN
    assert "no longer holds epoch 2" in outcome.ending.reason


def test_a_short_silence_of_redis_and_kafka_is_sat_out(fleet: SimulatedFleet) -> None:
    fleet.outages.append((4.0, 8.0))

    outcome = Rig(fleet, outages=[(17.0, 22.0)]).run()

    assert outcome.ending.result is CanaryResult.PROMOTED


def test_the_next_stage_waits_for_redis(fleet: SimulatedFleet) -> None:
    fleet.outages.append((8.0, 15.0))

    assert Rig(fleet).run().ending.result is CanaryResult.PROMOTED


def test_redis_silent_for_longer_than_the_window_goes_back_as_soon_as_it_answers(fleet: SimulatedFleet) -> None:
    fleet.outages.append((6.0, 40.0))

    outcome = Rig(fleet).run()

    assert outcome.ending.result is CanaryResult.UNREACHABLE
    assert "Redis has not answered" in outcome.ending.reason
    back = entries(fleet)[-1]
    assert dict(back.split) == {"old": 1}
    assert 40_000 <= back.at_ms - START_MS < 41_000


def test_kafka_silent_for_longer_than_the_window_goes_back(fleet: SimulatedFleet) -> None:
    outcome = Rig(fleet, outages=[(5.0, 1000.0)]).run()

    assert outcome.ending.result is CanaryResult.UNREACHABLE
    assert "Kafka has not answered" in outcome.ending.reason
    assert splits(fleet)[-1] == {"old": 1}
    assert entries(fleet)[-1].at_ms - START_MS < 25_000


def test_no_traffic_is_not_taken_for_a_silent_kafka(fleet: SimulatedFleet) -> None:
    for seconds in (10.0, 1.0):
        plan = CanaryPlan("new", (10, 100), seconds)
        assert Rig(fleet, per_second=0).run(plan).ending.result is CanaryResult.STARVED


def test_a_poll_that_fails_is_tried_again(fleet: SimulatedFleet) -> None:
    rig = Rig(fleet)

    def fail() -> None:
        if 5.0 < fleet.now < 6.0:
            raise UnavailableError("Kafka: NodeNotReadyError")

    rig.outcomes.on_poll = fail

    assert rig.run().ending.result is CanaryResult.PROMOTED


def test_a_worker_that_refuses_the_version_leaves_everything_as_it_is(fleet: SimulatedFleet) -> None:
    fleet.workers[1].refuses = "wrong hash"

    outcome = Rig(fleet).run()

    assert (outcome.ending.result, outcome.entry) == (CanaryResult.REFUSED, None)
    assert "w1 on host refused: wrong hash" in outcome.ending.reason
    assert len(entries(fleet)) == 1


def test_a_stage_that_is_called_off_goes_back_to_the_start(fleet: SimulatedFleet) -> None:
    fleet.at.append((12.0, lambda: setattr(fleet.workers[1], "hears_after", 60.0)))

    outcome = Rig(fleet).run()

    assert (outcome.ending.result, outcome.share) == (CanaryResult.REFUSED, 50)
    assert "not armed in time: w1" in outcome.ending.reason
    assert splits(fleet)[-1] == {"old": 1}
    assert outcome.confirmation is SwitchResult.UNCONFIRMED


def test_an_answer_that_was_lost_in_the_first_stage_is_no_decision_of_somebody_else(fleet: SimulatedFleet) -> None:
    def fail(model: str, change: Callable[[Timeline], Timeline], *, replace: bool = False) -> Timeline:
        change(fleet.versions_door.read(model) or Timeline())
        raise UnavailableError("Redis: ConnectionError")

    fleet.versions_door.move = fail  # type: ignore[method-assign]

    outcome = Rig(fleet).run()

    assert (outcome.ending.result, outcome.entry) == (CanaryResult.UNREACHABLE, None)
    assert len(entries(fleet)) == 1


@pytest.mark.parametrize("version", ["old"])
def test_what_cannot_work_is_refused_before_anything_is_prepared(fleet: SimulatedFleet, version: str) -> None:
    with pytest.raises(ConfigurationError, match="active already"):
        Rig(fleet).run(CanaryPlan(version))
    assert fleet.workers_door.hints_sent == 0


def test_somebody_elses_preparation_is_not_disturbed(fleet: SimulatedFleet) -> None:
    fleet.workers_door.propose_candidate(MODEL, Candidate("f" * 16, ("third",), "bob", 0))

    with pytest.raises(PointerConflictError, match="bob is preparing"):
        Rig(fleet).run()
    assert len(entries(fleet)) == 1


def test_what_is_shown_tells_both_versions_apart(fleet: SimulatedFleet) -> None:
    rig = Rig(fleet, Behaviour(error_rate=0.01, latency_ms=50.0))

    rig.run(CanaryPlan("new", (10, 50, 100), 10.0, Thresholds(min_results=100), ("confidence",)))

    views = [view for view in rig.views if isinstance(view, CanaryView)]
    last = [view for view in views if view.stage == 1][-1]
    assert (last.stages, last.window_seconds, last.new.version, last.old.version) == (3, 10.0, "new", "old")
    assert (last.new.share, last.old.share) == (10, 90)
    assert last.new.results < last.old.results
    assert last.new.p95_ms is not None
    assert last.old.p95_ms is not None
    assert last.new.p95_ms > last.old.p95_ms
    assert last.new.quality == pytest.approx(0.8, abs=0.05)
    assert last.verdict == "no worse than 10 s can show"


def test_a_long_reason_fits_the_history(fleet: SimulatedFleet) -> None:
    versions: Any = fleet.versions_door
    outcomes = PlayedOutcomes(fleet, {"old": GOOD, "new": Behaviour(error_rate=0.5)})
    canary = Canary(MODEL, versions, fleet.workers_door, outcomes, fleet.clock, lambda _: None)

    canary.run(PLAN, Author("ann", "x" * MAX_REASON_CHARS))

    assert all(len(entry.author.reason) <= MAX_REASON_CHARS for entry in entries(fleet))
