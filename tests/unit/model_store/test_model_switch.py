import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model_store.model_switch import ADOPTION_SECONDS, PATIENCE_SECONDS, ModelSwitch
from model_store.record_versions import choose_entry
from model_store.switch_contract import SwitchResult, SwitchView
from model_store.switch_request import Instant, Quorum, SwitchRequest
from model_store.timeline import CALL_OFF_MARGIN_MS, Author, SwitchMode, Timeline
from model_store.worker_reports import Candidate
from schemas.errors import ConfigurationError, PointerConflictError, UnavailableError
from tests.fakes.simulated_workers import MODEL, START_MS, Interruptible, SimulatedFleet, SimulatedWorker

ANN = Author("ann@host", "better on snow")


def fleet(*workers: SimulatedWorker, active: str | None = "old") -> SimulatedFleet:
    made = SimulatedFleet(*workers)
    if active is not None:
        made.versions_door.activate(MODEL, active, 0, START_MS - 10_000)
    for worker in workers:
        worker.warm.add("old")
    made.pass_time(0.1)
    return made


def switch(made: SimulatedFleet, show: Callable[[SwitchView], None] = lambda _: None) -> ModelSwitch:
    versions: Any = Interruptible(made.versions_door, made)
    workers: Any = Interruptible(made.workers_door, made)
    return ModelSwitch(MODEL, versions, workers, made.clock, show, lambda: "0" * 16)


def request(instant: Instant | None = Instant(), **changes: Any) -> SwitchRequest:
    return SwitchRequest({"new": 1}, instant, ANN, **changes)


def timeline(made: SimulatedFleet) -> Timeline:
    stored = made.versions_door.read(MODEL)
    assert stored is not None
    return stored


def test_all_prepare_then_the_switch_is_armed_for_an_instant_to_come() -> None:
    made = fleet(SimulatedWorker("w0", load_seconds=1.0), SimulatedWorker("w1", load_seconds=3.0))

    outcome = switch(made).activate(request())

    assert (outcome.result, outcome.workers) == (SwitchResult.DONE, 2)
    entry = timeline(made).latest
    assert entry == outcome.entry
    assert entry is not None
    assert (entry.mode, entry.author, dict(entry.split)) == (SwitchMode.EXACT, ANN, {"new": 1})
    assert entry.effective_from_ms == entry.at_ms + 2000
    assert entry.at_ms >= START_MS + 3000
    assert all("new" in worker.warm and worker.epoch == 2 for worker in made.workers)
    assert made.workers_door.read_candidate(MODEL) is None


def test_a_refusal_changes_nothing_and_is_named() -> None:
    made = fleet(SimulatedWorker("w0"), SimulatedWorker("w1", refuses="weights.safetensors: wrong hash"))
    before = timeline(made)

    outcome = switch(made).activate(request())

    assert (outcome.result, outcome.entry) == (SwitchResult.REFUSED, None)
    assert outcome.reason == "worker w1 on host refused: weights.safetensors: wrong hash"
    assert timeline(made) == before
    assert made.workers_door.read_candidate(MODEL) is None


def test_a_redis_that_was_emptied_a_moment_ago_is_not_taken_for_one_without_workers() -> None:
    made = fleet(SimulatedWorker("w0"))
    made.versions_door.values.clear()
    made.workers_door._reports.clear()

    with pytest.raises(ConfigurationError, match="Redis has lost decisions; --floor-epoch 1 "):
        switch(made).activate(request())


def test_a_split_is_restored_from_now_on_and_ends_an_armed_switch() -> None:
    made = fleet(SimulatedWorker("w0"))
    door = made.versions_door
    door.move(MODEL, lambda now: now.with_activation("new", 1, made.now_ms(), effective_from_ms=START_MS + 60_000))

    outcome = switch(made).restore({"old": 1}, 2, ANN)

    assert (outcome.result, outcome.entry) == (SwitchResult.DONE, timeline(made).latest)
    assert outcome.entry is not None
    assert (dict(outcome.entry.split), outcome.entry.mode, outcome.entry.author) == ({"old": 1}, SwitchMode.NOW, ANN)
    with pytest.raises(PointerConflictError):
        switch(made).restore({"old": 1}, 2, ANN)


def test_a_quorum_goes_ahead_past_a_refusal() -> None:
    made = fleet(SimulatedWorker("w0"), SimulatedWorker("w1", refuses="no room"))

    assert switch(made).activate(request(quorum=Quorum(percent=50))).result is SwitchResult.DONE


def test_a_worker_that_hangs_is_refused_by_the_clock() -> None:
    made = fleet(SimulatedWorker("w0"), SimulatedWorker("w1", load_seconds=1e6))

    outcome = switch(made).activate(request(prepare_timeout_seconds=20))

    assert outcome.result is SwitchResult.REFUSED
    assert "1 of 2 workers were ready in time, 2 are needed: worker w1 on host preparing" in outcome.reason
    assert 20 <= made.now < 21


def test_a_worker_that_is_not_armed_in_time_calls_the_switch_off() -> None:
    made = fleet(SimulatedWorker("w0"), SimulatedWorker("w1", hears_after=1.9))

    outcome = switch(made).activate(request())

    assert (outcome.result, outcome.reason) == (SwitchResult.CALLED_OFF, "not armed in time: w1")
    off = timeline(made).latest
    assert off is not None
    assert outcome.entry is not None
    assert (dict(off.split), off.effective_from_ms) == ({"old": 1}, outcome.entry.effective_from_ms)
    assert off.author == Author("ann@host", "called off: not armed in time: w1")
    assert off.at_ms < off.effective_from_ms - CALL_OFF_MARGIN_MS


def test_a_worker_that_appears_while_others_arm_has_to_have_the_version_in_time() -> None:
    made = fleet(SimulatedWorker("w0", load_seconds=1.0, hears_after=0.5))
    made.workers.append(SimulatedWorker("w1", lives_from=1.5, load_seconds=1e6))

    outcome = switch(made).activate(request())

    assert (outcome.result, outcome.reason) == (SwitchResult.CALLED_OFF, "not armed in time: w1")


def test_a_worker_that_is_killed_while_it_prepares_is_not_waited_for_for_ever() -> None:
    made = fleet(SimulatedWorker("w0"), SimulatedWorker("w1", load_seconds=1e6, lives_until=2.0))

    assert switch(made).activate(request()).result is SwitchResult.DONE
    assert made.now < 10


def test_from_now_on_is_prepared_too_and_has_no_instant_to_wait_for() -> None:
    made = fleet(SimulatedWorker("w0", load_seconds=2.0))

    outcome = switch(made).activate(request(None))

    assert outcome.result is SwitchResult.DONE
    assert outcome.entry is not None
    assert (outcome.entry.mode, outcome.entry.effective_from_ms) == (SwitchMode.NOW, outcome.entry.at_ms)
    assert made.now < 3


def test_a_switch_from_now_on_that_is_not_confirmed_stays() -> None:
    made = fleet(SimulatedWorker("w0", hears_after=60))

    outcome = switch(made).activate(request(None))

    assert (outcome.result, outcome.reason) == (SwitchResult.UNCONFIRMED, "not armed in time: w0")
    assert timeline(made).latest == outcome.entry
    assert made.now < ADOPTION_SECONDS + 1


def test_without_preparation_the_workers_are_not_asked() -> None:
    made = fleet(SimulatedWorker("w0", load_seconds=1e6))

    outcome = switch(made).activate(request(prepare_timeout_seconds=0))

    assert outcome.result is SwitchResult.DONE
    assert made.workers_door.hints_sent == 0


@pytest.mark.parametrize("active", [None, "old"])
def test_without_a_worker_the_switch_is_immediate(active: str | None) -> None:
    made = fleet(active=active)

    outcome = switch(made).activate(request())

    assert (outcome.result, outcome.workers) == (SwitchResult.DONE, 0)
    assert outcome.entry is not None
    assert (outcome.entry.mode, outcome.entry.epoch) == (SwitchMode.NOW, 1 if active is None else 2)


def test_workers_that_a_fresh_redis_has_not_heard_of_are_waited_for() -> None:
    made = fleet(SimulatedWorker("w0", lives_from=1.0))

    outcome = switch(made).activate(request())

    assert (outcome.result, outcome.workers) == (SwitchResult.DONE, 1)


def test_a_split_prepares_all_of_its_versions() -> None:
    made = fleet(SimulatedWorker("w0"))

    switch(made).activate(SwitchRequest({"old": 90, "new": 10}))

    entry = timeline(made).latest
    assert entry is not None
    assert dict(entry.split) == {"old": 90, "new": 10}


def test_an_unsound_value_stops_a_switch_unless_it_is_to_be_replaced() -> None:
    made = fleet(active=None)
    made.versions_door.put(MODEL, b"rubbish")

    outcome = switch(made).activate(request(replaces_unsound=True, floor_epoch=8))

    assert outcome.entry is not None
    assert outcome.entry.epoch == 9


def test_somebody_who_moved_the_pointer_during_the_preparation_wins() -> None:
    made = fleet(SimulatedWorker("w0", load_seconds=2.0))
    made.at.append((1.0, lambda: made.versions_door.activate(MODEL, "third", 1, made.now_ms()) and None))

    with pytest.raises(PointerConflictError):
        switch(made).activate(request())
    assert timeline(made).epoch == 2
    assert made.workers_door.read_candidate(MODEL) is None


def test_only_one_preparation_runs_at_a_time() -> None:
    made = fleet(SimulatedWorker("w0"))
    other = Candidate("f" * 16, ("third",), "bob@host", 5)
    made.workers_door.propose_candidate(MODEL, other)

    with pytest.raises(PointerConflictError, match="bob@host is preparing third"):
        switch(made).activate(request())
    assert made.workers_door.read_candidate(MODEL) == other


def test_a_preparation_whose_place_was_taken_stops() -> None:
    made = fleet(SimulatedWorker("w0", load_seconds=1e6))
    other = Candidate("f" * 16, ("third",), "bob@host", 5)

    def usurp() -> None:
        made.workers_door.withdraw_candidate(MODEL, "0" * 16)
        made.workers_door.propose_candidate(MODEL, other)

    made.at.append((1.0, usurp))

    outcome = switch(made).activate(request())

    assert (outcome.result, outcome.reason) == (SwitchResult.REFUSED, "another preparation has taken its place")
    assert made.workers_door.read_candidate(MODEL) == other


def test_a_long_preparation_keeps_its_candidate_alive() -> None:
    made = fleet(SimulatedWorker("w0", load_seconds=90))

    assert switch(made).activate(request()).result is SwitchResult.DONE


def test_an_instant_that_came_too_near_while_workers_prepared_changes_nothing() -> None:
    made = fleet(SimulatedWorker("w0", load_seconds=5))

    with pytest.raises(ConfigurationError, match="needs 2 s ahead"):
        switch(made).activate(request(Instant(at_ms=START_MS + 6000)))
    assert timeline(made).epoch == 1
    assert made.workers_door.read_candidate(MODEL) is None


@pytest.mark.parametrize("during", ["preparing", "arming"])
def test_an_interrupt_leaves_the_old_version_and_no_candidate(during: str) -> None:
    made = fleet(SimulatedWorker("w0", load_seconds=1.0, hears_after=0.5))

    def interrupt(view: SwitchView) -> None:
        if during in view.stage and len(view.rows) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        switch(made, interrupt).activate(request())
    entry = timeline(made).latest
    assert entry is not None
    assert dict(entry.split) == {"old": 1}
    assert entry.epoch == (1 if during == "preparing" else 3)
    assert made.workers_door.read_candidate(MODEL) is None


def test_a_redis_that_is_away_for_a_while_only_delays_a_preparation() -> None:
    made = fleet(SimulatedWorker("w0", load_seconds=1.0))
    made.outages.append((0.5, 0.5 + PATIENCE_SECONDS - 1))

    assert switch(made).activate(request()).result is SwitchResult.DONE


def test_a_redis_that_stays_away_ends_a_preparation() -> None:
    made = fleet(SimulatedWorker("w0", load_seconds=1.0))
    made.outages.append((0.5, 1e9))

    with pytest.raises(UnavailableError):
        switch(made).activate(request())
    assert timeline(made).epoch == 1


def test_an_answer_that_is_lost_on_the_way_is_not_taken_for_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    made = fleet(SimulatedWorker("w0"))
    move = made.versions_door.move

    def moved_and_lost(*arguments: Any, **options: Any) -> Timeline:
        move(*arguments, **options)
        made.outages.append((made.now, made.now + 0.2))
        raise UnavailableError("Redis: TimeoutError")

    monkeypatch.setattr(made.versions_door, "move", moved_and_lost)

    outcome = switch(made).activate(request())

    assert outcome.result is SwitchResult.DONE
    assert timeline(made).latest == outcome.entry


def test_a_write_whose_fate_stays_unknown_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    made = fleet(SimulatedWorker("w0"))

    def lost(_: str, change: Callable[[Timeline], Timeline], *, replace: bool) -> Timeline:
        change(timeline(made))
        made.outages.append((made.now, 1e9))
        raise UnavailableError("Redis: TimeoutError")

    monkeypatch.setattr(made.versions_door, "move", lost)

    with pytest.raises(UnavailableError, match="not known whether epoch 2 was stored"):
        switch(made).activate(request())


def test_a_switch_that_cannot_be_called_off_says_so() -> None:
    made = fleet(SimulatedWorker("w0", hears_after=60))

    def cut(view: SwitchView) -> None:
        if "arming" in view.stage and not made.outages:
            made.outages.append((made.now, 1e9))

    outcome = switch(made, cut).activate(request())

    assert outcome.result is SwitchResult.UNSTOPPED
    assert "Redis" in outcome.reason


def test_a_rollback_is_stored_at_once_and_confirmed_by_the_workers() -> None:
    made = fleet(SimulatedWorker("w0"), SimulatedWorker("w1"))
    switch(made).activate(request(None))
    began = made.now_ms()

    outcome = switch(made).roll_back(None, author=Author("ann@host", "wrong labels"))

    assert (outcome.result, outcome.workers) == (SwitchResult.DONE, 2)
    assert outcome.entry is not None
    assert (dict(outcome.entry.split), outcome.entry.mode) == ({"old": 1}, SwitchMode.NOW)
    assert outcome.entry.at_ms == began


def test_a_rollback_with_an_expected_epoch_is_not_done_twice() -> None:
    made = fleet()
    made.versions_door.activate(MODEL, "new", 1, START_MS)
    switch(made).roll_back(None, 2)

    with pytest.raises(PointerConflictError):
        switch(made).roll_back(None, 2)


def test_a_rollback_without_a_worker_waits_for_nobody() -> None:
    made = fleet()
    made.versions_door.activate(MODEL, "new", 1, START_MS)
    before = made.now

    assert switch(made).roll_back("old").workers == 0
    assert made.now == before


def test_a_rollback_is_done_even_when_nobody_can_be_asked_about_it() -> None:
    made = fleet(SimulatedWorker("w0"))
    made.versions_door.activate(MODEL, "new", 1, START_MS)

    class Silent(Interruptible):
        def __getattr__(self, name: str) -> object:
            raise UnavailableError("Redis: ConnectionError")

    workers: Any = Silent(made.workers_door, made)
    outcome = ModelSwitch(MODEL, made.versions_door, workers, made.clock, lambda _: None).roll_back(None)

    assert outcome.result is SwitchResult.UNCONFIRMED
    assert timeline(made).latest == outcome.entry


WORKERS = st.builds(
    SimulatedWorker,
    st.just("w"),
    load_seconds=st.floats(0, 4),
    refuses=st.sampled_from(["", "", "", "wrong hash"]),
    hears_after=st.sampled_from([0.0, 0.1, 1.0, 1.6, 2.5]),
    lives_from=st.sampled_from([0.0, 0.0, 0.0, 0.5, 2.0, 3.5]),
    lives_until=st.sampled_from([1e9, 1e9, 1.0, 3.0, 5.0]),
    leaves=st.booleans(),
)
OUTAGES = st.lists(st.tuples(st.floats(0.2, 8), st.floats(0.05, 3)), max_size=2)


@settings(max_examples=150, deadline=None)
@given(st.lists(WORKERS, min_size=1, max_size=4), OUTAGES, st.booleans(), st.sampled_from([None, 1.0, 3.0]))
def test_whatever_happens_a_switch_is_whole_or_nothing(
    workers: list[SimulatedWorker], outages: list[tuple[float, float]], is_exact: bool, interrupted_at: float | None
) -> None:
    for number, worker in enumerate(workers):
        worker.worker = f"w{number}"
        worker.warm = set()
    made = fleet(*workers)
    made.outages += [(begin, begin + length) for begin, length in outages]

    def show(_: SwitchView) -> None:
        if interrupted_at is not None and made.now >= interrupted_at:
            raise KeyboardInterrupt

    outcome = None
    with contextlib.suppress(UnavailableError, PointerConflictError, ConfigurationError, KeyboardInterrupt):
        outcome = switch(made, show).activate(request(Instant() if is_exact else None, prepare_timeout_seconds=6))
    result = outcome.result if outcome is not None else None
    decided = timeline(made)

    if result is SwitchResult.REFUSED:
        assert decided.epoch == 1
    if result is SwitchResult.CALLED_OFF:
        assert [choose_entry(decided, {}, 0, 0, START_MS + ms).split for ms in (0, 10**7)] == [{"old": 1}] * 2  # type: ignore[union-attr]  # there is one
    if result is SwitchResult.DONE and outcome is not None and outcome.workers and is_exact:
        entry = outcome.entry
        assert entry is not None
        assert made.now_ms() < entry.effective_from_ms - CALL_OFF_MARGIN_MS
        alive = [worker for worker in workers if worker.lives(made.now) and worker.lives_from < made.now - 0.1]
        assert all(worker.epoch >= entry.epoch and "new" in worker.warm for worker in alive)
    if not made.is_down():
        assert made.workers_door.read_candidate(MODEL) is None
