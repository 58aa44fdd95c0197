"""Which versions a slot keeps loaded, and what becomes of those that cannot be."""

import pytest

from stream_workers.links.messages import Attach, Loaded, Preparation, Residents
from stream_workers.supervision.declaration import RETRY_SECONDS, SHADOW_RETRY_SECONDS
from stream_workers.supervision.model_fleet import FAILED_LOADS
from stream_workers.supervision.version_set import SHADOW_RESTARTS
from tests.unit.stream_workers.supervision.fleet_rig import LOAD_SECONDS, MEMORY_BYTES, FleetRig


def serving(version: str = "a", **options: object) -> FleetRig:
    """A fleet that serves a version."""
    rig = FleetRig(**options)  # type: ignore[arg-type]
    rig.declare(version)
    rig.finish_loads()
    assert rig.active == (version, 1)
    return rig


def switched(**options: object) -> FleetRig:
    """A fleet that has gone from a to b."""
    rig = serving("a", **options)
    rig.declare("b", epoch=2)
    rig.finish_loads()
    assert rig.active == ("b", 2)
    return rig


# -- switching ---------------------------------------------------------------------------------------------------------


def test_what_serves_goes_on_until_all_processes_of_the_next_version_are_loaded() -> None:
    rig = serving("a", instances=2)
    rig.declare("b", epoch=2)
    first, second = rig.loading("b")
    rig.fleet.on_message(first, Loaded(1.0, 1), rig.now)  # type: ignore[arg-type]
    assert rig.active == ("a", 1)
    rig.fleet.on_message(second, Loaded(1.0, 1), rig.now)  # type: ignore[arg-type]
    assert rig.active == ("b", 2)


def test_the_first_version_serves_as_soon_as_one_process_has_it() -> None:
    rig = FleetRig(instances=2)
    rig.declare("a")
    rig.fleet.on_message(rig.loading()[0], Loaded(1.0, 1), rig.now)  # type: ignore[arg-type]
    assert rig.active == ("a", 1)
    assert rig.fleet.count_loaded() == 1


def test_going_back_to_the_version_before_takes_no_load() -> None:
    rig = switched()
    rig.declare("a", epoch=3)
    assert rig.active == ("a", 3)
    assert (rig.count_starts("a"), rig.count_starts("b")) == (1, 1)


def test_a_new_epoch_of_a_version_that_is_loaded_starts_nothing() -> None:
    rig = serving("a")
    rig.declare("a", epoch=9)
    assert rig.active == ("a", 9)
    assert len(rig.started) == 1


def test_saying_the_same_again_posts_nothing() -> None:
    rig = serving("a")
    posted = len(rig.posted)
    rig.declare("a")
    rig.turn(10)
    assert len(rig.posted) == posted


def test_a_version_is_kept_warm_for_its_time_and_not_longer() -> None:
    rig = switched(keep_warm=100.0)
    rig.turn(99)
    assert rig.versions() == ["a", "b"]
    rig.turn(2)
    assert rig.versions() == ["b"]


def test_without_a_time_to_keep_it_warm_a_version_goes_when_its_last_batch_is_back() -> None:
    rig = serving("a", keep_warm=0.0)
    (old,) = rig.alive("a")
    rig.busy.add(old.number)
    rig.declare("b", epoch=2)
    rig.finish_loads()
    assert rig.alive("a") == [old], "it has a batch in hand"
    rig.busy.clear()
    rig.turn()
    assert rig.versions() == ["b"]


def test_the_time_to_keep_it_warm_begins_when_its_last_record_is_answered() -> None:
    rig = serving("a", keep_warm=100.0)
    rig.declare("b", "a", epoch=2)
    rig.finish_loads()
    rig.turn(500)
    rig.declare("b", epoch=2)
    rig.turn(99)
    assert rig.versions() == ["a", "b"]
    rig.turn(2)
    assert rig.versions() == ["b"]


def test_a_newer_wish_calls_off_a_load() -> None:
    rig = serving("a")
    rig.declare("b", epoch=2)
    rig.declare("a", epoch=3)
    assert (rig.versions(), rig.active) == (["a"], ("a", 3))


# -- several at once ---------------------------------------------------------------------------------------------------


def test_all_versions_of_a_split_are_loaded_and_attached() -> None:
    rig = serving("a")
    rig.declare("a", "b", "c", epoch=2)
    rig.finish_loads()
    assert {group.version for group in rig.residents.sets if group.is_whole} == {"a", "b", "c"}
    assert len([message for message in rig.posted if isinstance(message, Attach)]) == 3


def test_what_a_split_has_left_stays_warm_all_of_it() -> None:
    rig = serving("a")
    rig.declare("a", "b", epoch=2)
    rig.finish_loads()
    rig.declare("c", epoch=3)
    rig.finish_loads()
    assert rig.active == ("c", 3)
    rig.declare("a", "b", epoch=4)
    assert {group.version for group in rig.residents.sets if group.is_whole} == {"a", "b", "c"}
    assert len(rig.started) == 3


def test_a_third_version_waits_until_the_warm_one_has_gone() -> None:
    rig = switched()
    (warm,) = rig.alive("a")
    rig.busy.add(warm.number)
    rig.declare("b", epoch=2, candidate=("c",))
    assert "a" not in [group.version for group in rig.residents.sets]
    assert rig.count_starts("c") == 0, "the warm version has its memory still"
    rig.busy.clear()
    rig.turn()
    assert rig.versions() == ["b", "c"]


# -- candidates --------------------------------------------------------------------------------------------------------


def test_a_candidate_is_loaded_and_reported_and_changes_nothing_else() -> None:
    rig = serving("a")
    rig.declare("a", candidate=("b",))
    assert rig.residents.preparation == Preparation("c1")
    rig.finish_loads()
    assert rig.residents.preparation == Preparation("c1", is_ready=True)
    assert rig.active == ("a", 1)


def test_a_candidate_that_becomes_wanted_is_promoted_at_no_cost() -> None:
    rig = serving("a")
    rig.declare("a", candidate=("b",))
    rig.finish_loads()
    rig.declare("b", epoch=2)
    assert rig.active == ("b", 2)
    assert rig.count_starts("b") == 1


def test_a_candidate_that_is_called_off_is_let_go_at_once() -> None:
    rig = serving("a")
    rig.declare("a", candidate=("b",))
    rig.finish_loads()
    rig.declare("a")
    assert rig.versions() == ["a"]
    assert rig.residents.preparation is None


def test_a_warm_version_is_a_candidate_that_is_ready() -> None:
    rig = switched()
    rig.declare("b", epoch=2, candidate=("a",))
    assert rig.residents.preparation == Preparation("c1", is_ready=True)


def test_a_candidate_that_fails_is_refused_once_and_touches_nothing_that_serves() -> None:
    rig = serving("a")
    (old,) = rig.alive("a")
    rig.declare("a", candidate=("b",))
    rig.fail_load("b")
    assert rig.residents.preparation == Preparation("c1", refusal="RuntimeError: boom")
    rig.declare("a", candidate=("b",))
    rig.turn(1000)
    assert rig.count_starts("b") == 1, "the same preparation is not tried again"
    assert (rig.alive(), rig.active, rig.refused) == ([old], ("a", 1), [])
    rig.declare("a", candidate=("b",), name="c2")
    assert rig.residents.preparation == Preparation("c2")
    assert rig.count_starts("b") == 2


def test_a_candidate_that_hangs_is_refused_at_the_load_limit() -> None:
    rig = serving("a")
    rig.declare("a", candidate=("b",))
    rig.turn(LOAD_SECONDS + 1)
    preparation = rig.residents.preparation
    assert preparation is not None
    assert preparation.refusal == f"TimeoutError: not loaded within {LOAD_SECONDS:g} s"
    assert rig.versions() == ["a"]


@pytest.mark.parametrize("is_late", [False, True])
def test_a_load_over_the_memory_bound_is_refused_even_when_it_is_seen_only_at_its_end(is_late: bool) -> None:
    rig = serving("a")
    rig.declare("a", candidate=("b",))
    rig.loading("b")[0].peak_bytes = MEMORY_BYTES + 1
    if is_late:
        rig.finish_loads()
    else:
        rig.turn(0.1)
    preparation = rig.residents.preparation
    assert preparation is not None
    assert preparation.refusal.startswith("load_exceeded_memory: 1,001 bytes")
    assert rig.versions() == ["a"]


def test_what_serves_may_take_more_memory_than_a_load() -> None:
    rig = serving("a")
    rig.alive("a")[0].peak_bytes = MEMORY_BYTES + 1
    rig.turn(1)
    assert rig.versions() == ["a"]


# -- ends --------------------------------------------------------------------------------------------------------------


def test_a_process_that_ends_is_replaced_in_every_role() -> None:
    rig = switched()
    rig.declare("b", epoch=2, candidate=("a",))
    for name in ("a", "b"):
        rig.kill(name)
        assert len(rig.loading(name)) == 1
        rig.finish_loads()
    assert rig.residents.preparation == Preparation("c1", is_ready=True)
    assert (rig.active, rig.fleet.restarts) == (("b", 2), 2)


def test_a_version_that_records_in_hand_need_is_replaced_though_it_is_not_the_main_one() -> None:
    rig = switched()
    rig.declare("b", "a", epoch=2)
    rig.kill("a")
    rig.finish_loads()
    assert {group.version for group in rig.residents.sets if group.is_whole} == {"a", "b"}


def test_a_new_member_is_given_everything_that_is_loaded() -> None:
    rig = switched()
    rig.fleet.lose_member(rig.now)
    rig.posted.clear()
    rig.fleet.meet_member()
    residents, *attached = rig.posted
    assert isinstance(residents, Residents)
    assert {message.version.version for message in attached if isinstance(message, Attach)} == {"a", "b"}
    assert rig.fleet.declared is not None
    assert [version.version for version in rig.fleet.declared.wanted] == ["b"]


def test_without_a_member_nothing_waits_to_be_released() -> None:
    rig = switched(keep_warm=100.0)
    rig.fleet.lose_member(rig.now)
    rig.turn(101)
    assert rig.versions() == ["b"]


def test_a_process_for_which_there_is_no_room_is_started_later() -> None:
    rig = FleetRig()
    rig.lend_room(enough=False)
    rig.declare("a")
    assert rig.started == []
    rig.lend_room(enough=True)
    rig.turn(1.1)
    assert len(rig.started) == 1


# -- versions that cannot be loaded ------------------------------------------------------------------------------------


def test_a_wanted_version_that_fails_is_refused_and_tried_again_after_a_while() -> None:
    rig = serving("a")
    rig.declare("b", epoch=2)
    rig.fail_load("b")
    assert rig.refused == [("b", "RuntimeError: boom")]
    assert rig.residents.failed == {"b": "RuntimeError: boom"}
    assert (rig.active, rig.versions()) == (("a", 1), ["a"])
    rig.turn(RETRY_SECONDS - 1)
    assert rig.count_starts("b") == 1
    rig.turn(2)
    rig.finish_loads()
    assert (rig.residents.failed, rig.active) == ({}, ("b", 2))


def test_what_can_never_load_is_tried_again_only_when_it_is_asked_for_anew() -> None:
    rig = serving("a")
    rig.declare("b", epoch=2)
    rig.fail_load("b", permanent=True)
    rig.turn(10 * RETRY_SECONDS)
    assert rig.count_starts("b") == 1
    rig.declare("b", epoch=3)
    assert (rig.count_starts("b"), rig.residents.failed) == (2, {})


def test_while_the_wanted_version_cannot_load_the_one_before_is_never_let_go() -> None:
    rig = serving("a", keep_warm=0.0)
    rig.declare("b", epoch=2)
    rig.fail_load("b", permanent=True)
    rig.turn(100_000)
    assert rig.versions() == ["a"]


@pytest.mark.parametrize("pinned", [True, False])
def test_a_first_version_whose_slow_load_fails_every_time_is_given_up(pinned: bool) -> None:
    """Each load takes so long that the restart policy forgets the one before."""
    rig = FleetRig(pinned=pinned)
    rig.declare("a")
    for _ in range(FAILED_LOADS):
        rig.turn(50)
        rig.fail_load("a")
    assert len(rig.started) == FAILED_LOADS
    assert rig.refused == [("a", "RuntimeError: boom")]
    assert rig.fleet.failure == ("RuntimeError: boom" if pinned else None)
    assert not rig.fleet.failure_is_permanent


def test_a_pinned_version_that_can_never_load_is_the_end() -> None:
    rig = FleetRig(pinned=True)
    rig.declare("a")
    rig.fail_load("a", permanent=True)
    assert (rig.fleet.failure, rig.fleet.failure_is_permanent) == ("RuntimeError: boom", True)


@pytest.mark.parametrize("has_loaded", [False, True])
def test_the_only_version_that_ends_again_and_again_is_the_end(has_loaded: bool) -> None:
    rig = FleetRig(restarts=4)
    rig.declare("a")
    for _ in range(5):
        assert rig.fleet.failure is None
        if has_loaded:
            rig.finish_loads()
        rig.kill("a")
        rig.turn(1)
    assert rig.fleet.failure is not None
    assert "again and again" in rig.fleet.failure


def test_a_candidate_that_ends_again_and_again_is_refused_and_costs_what_serves_nothing() -> None:
    rig = serving("a", restarts=2)
    rig.declare("a", candidate=("b",))
    for _ in range(3):
        rig.finish_loads()
        rig.kill("b")
        rig.turn(1)
    preparation = rig.residents.preparation
    assert preparation is not None
    assert "again and again" in preparation.refusal
    assert (rig.fleet.failure, rig.versions()) == (None, ["a"])


# -- a shadow ----------------------------------------------------------------------------------------------------------


def shadowing(**options: object) -> FleetRig:
    """A fleet that serves a and runs s for nobody."""
    rig = serving("a", **options)
    rig.declare("a", shadow="s")
    rig.finish_loads()
    return rig


def test_a_shadow_has_processes_of_its_own_that_are_no_way_to_serve() -> None:
    rig = shadowing()
    (shadow,) = rig.alive("s")
    assert shadow.is_shadow
    assert not rig.alive("a")[0].is_shadow
    sets = {group.version: group.is_shadow for group in rig.residents.sets}
    assert sets == {"a": False, "s": True}
    assert (rig.active, rig.fleet.count_loaded()) == (("a", 1), 1)


def test_a_shadow_that_becomes_active_is_loaded_anew_to_serve() -> None:
    rig = shadowing()
    rig.declare("s", epoch=2, shadow="s")
    assert rig.active == ("a", 1), "the shadow's process does not serve"
    rig.finish_loads()
    assert rig.active == ("s", 2)
    assert [one.is_shadow for one in rig.alive("s")] == [False]


def test_a_candidate_takes_the_place_of_a_shadow_at_once_whatever_that_has_in_hand() -> None:
    rig = shadowing()
    rig.busy.add(rig.alive("s")[0].number)
    rig.declare("a", candidate=("b",), shadow="s")
    rig.turn()
    assert rig.versions() == ["a", "b"]
    rig.finish_loads()
    assert rig.residents.preparation == Preparation("c1", is_ready=True)
    rig.declare("a", shadow="s")
    rig.turn()
    assert rig.versions() == ["a", "s"], "and it comes back after that"


def test_stopping_a_shadow_ends_its_processes_at_once() -> None:
    rig = shadowing()
    rig.busy.add(rig.alive("s")[0].number)
    rig.declare("a")
    rig.turn()
    assert rig.versions() == ["a"]


def test_a_shadow_waits_for_what_is_kept_warm_and_says_so() -> None:
    rig = switched(keep_warm=100.0)
    rig.declare("b", epoch=2, shadow="s")
    assert rig.versions() == ["a", "b"]
    assert rig.residents.shadow_wait == "waits while a is kept warm for a rollback (model.keep_warm_seconds)"
    rig.turn(101)
    rig.turn()
    assert rig.versions() == ["b", "s"]


def test_a_shadow_that_cannot_be_loaded_costs_no_more_than_a_reason() -> None:
    rig = serving("a")
    rig.declare("a", shadow="s")
    rig.fail_load("s", permanent=True)
    rig.turn(10_000)
    assert rig.versions() == ["a"]
    assert rig.residents.shadow_wait == "RuntimeError: boom"
    assert (rig.residents.failed, rig.fleet.failure, rig.count_starts("s")) == ({}, None, 1)
    rig.declare("a")
    rig.declare("a", shadow="s")
    assert rig.count_starts("s") == 2, "said anew, it is tried again"


def test_a_shadow_that_ends_again_and_again_is_left_alone_for_a_while() -> None:
    rig = shadowing()
    for _ in range(20):
        for one in rig.alive("s"):
            one.return_code = -9
        rig.turn(1.0)
        rig.finish_loads()
    assert rig.versions() == ["a"]
    assert rig.count_starts("s") <= SHADOW_RESTARTS + 1
    assert rig.fleet.failure is None
    rig.turn(SHADOW_RETRY_SECONDS)
    assert rig.versions() == ["a", "s"]
