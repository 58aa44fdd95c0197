"""Which versions are loaded and let go, for whatever is wanted and whatever is there."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from stream_workers.supervision.residency_plan import ROOMY_VERSIONS, Held, Needs, plan_residency

NAMES = list("abcdef")
NOW, KEEP = 1000.0, 100.0

names = st.lists(st.sampled_from(NAMES), unique=True, max_size=3)
needs = st.builds(
    Needs,
    names,
    names,
    st.none() | st.sampled_from(NAMES),
    st.frozensets(st.sampled_from(NAMES), max_size=2),
    st.none() | st.sampled_from(NAMES),
)
held = st.lists(
    st.builds(Held, st.sampled_from(NAMES), st.booleans(), st.booleans(), st.none() | st.floats(0.0, NOW)),
    unique_by=lambda one: one.name,
)


@given(needs, held)
def test_what_is_needed_is_never_let_go_and_only_what_is_missing_is_loaded(needs: Needs, held: list[Held]) -> None:
    plan = plan_residency(needs, held, KEEP, NOW)
    there = {one.name for one in held}
    assert not any(needs.covers(name) for name in (*plan.let_go, *plan.cool))
    assert set(plan.let_go) <= there
    assert len(set(plan.let_go)) == len(plan.let_go)
    assert set(plan.load) == {*needs.wanted, *needs.candidates} - there - set(needs.hopeless)


@given(needs, held)
def test_a_load_leaves_no_warm_version_beyond_the_bound(needs: Needs, held: list[Held]) -> None:
    plan = plan_residency(needs, held, KEEP, NOW)
    left = [one for one in held if one.name not in plan.let_go]
    warm = [one for one in left if not needs.covers(one.name) and (one.warm_since is not None or one.name in plan.cool)]
    if plan.load and warm:
        assert len(left) + len(plan.load) <= ROOMY_VERSIONS


@given(needs, held)
def test_doing_what_was_planned_leaves_nothing_to_plan(needs: Needs, held: list[Held]) -> None:
    plan = plan_residency(needs, held, KEEP, NOW)
    after = [
        Held(one.name, one.is_whole, one.has_served, NOW if one.name in plan.cool else one.warm_since)
        for one in held
        if one.name not in plan.let_go
    ]
    after += [Held(name, is_whole=False, has_served=False, warm_since=None) for name in plan.load]
    again = plan_residency(needs, after, KEEP, NOW)
    assert (again.load, again.let_go, again.cool) == ([], [], [])
    assert again.load_shadow in (None, plan.load_shadow)


@given(needs, held)
def test_while_something_wanted_is_missing_nothing_that_has_served_begins_to_cool(
    needs: Needs, held: list[Held]
) -> None:
    whole = {one.name for one in held if one.is_whole}
    if not whole.issuperset(needs.wanted):
        plan = plan_residency(needs, held, KEEP, NOW)
        assert not plan.cool
        assert not any(one.has_served and one.warm_since is None and one.name in plan.let_go for one in held)


def test_of_several_warm_versions_the_oldest_goes_first() -> None:
    held = [
        Held("a", is_whole=True, has_served=True, warm_since=None),
        Held("b", is_whole=True, has_served=True, warm_since=NOW - 5),
        Held("c", is_whole=True, has_served=True, warm_since=NOW - 9),
    ]
    assert plan_residency(Needs(["a"]), held, KEEP, NOW).let_go == []
    assert plan_residency(Needs(["a"], ["d"]), held, KEEP, NOW).let_go == ["c", "b"]
    assert plan_residency(Needs(["a"], ["d"]), held[:2], KEEP, NOW).let_go == ["b"]


# -- a shadow beside them ----------------------------------------------------------------------------------------------

shadows = st.none() | st.sampled_from(NAMES)


def with_shadow(held: list[Held], name: str | None) -> list[Held]:
    others = [one for one in held if one.name != name]
    shadow = [] if name is None else [Held(name, is_whole=True, has_served=False, warm_since=None, is_shadow=True)]
    return [*others, *shadow]


@given(needs, held, shadows)
def test_a_shadow_changes_nothing_for_what_serves_is_prepared_or_kept_warm(
    needs: Needs, held: list[Held], shadow: str | None
) -> None:
    there = with_shadow(held, shadow)
    plan = plan_residency(needs, there, KEEP, NOW)
    alone = plan_residency(replace(needs, shadow=None), [one for one in there if not one.is_shadow], KEEP, NOW)
    assert (plan.load, plan.cool) == (alone.load, alone.cool)
    assert set(plan.let_go) - {shadow} == set(alone.let_go)


@given(needs, held, shadows)
def test_a_shadow_is_there_only_while_it_is_one_of_the_versions_that_may_always_be_loaded(
    needs: Needs, held: list[Held], shadow: str | None
) -> None:
    there = with_shadow(held, shadow)
    plan = plan_residency(needs, there, KEEP, NOW)
    others = {one.name for one in there if not one.is_shadow}.difference(plan.let_go) | set(plan.load)
    stays = shadow is not None and shadow not in plan.let_go
    if stays or plan.load_shadow is not None:
        assert len(others) < ROOMY_VERSIONS
        assert needs.shadow not in others
        assert needs.shadow == (plan.load_shadow or shadow)
        assert plan.shadow_wait == ""
    elif needs.shadow is not None:
        assert plan.shadow_wait
    if plan.load_shadow is not None:
        assert not plan.load
        assert not needs.candidates


def test_why_a_shadow_waits_is_told() -> None:
    a = Held("a", is_whole=True, has_served=True, warm_since=None)
    b = Held("b", is_whole=True, has_served=True, warm_since=NOW - 5)
    waits = {
        plan_residency(Needs(["a"], active="a", shadow="s"), [a], KEEP, NOW).load_shadow,
        plan_residency(Needs(["a"], active="a", shadow="a"), [a], KEEP, NOW).shadow_wait,
        plan_residency(Needs(["a"], active="a", shadow="s"), [a, b], KEEP, NOW).shadow_wait,
        plan_residency(Needs(["a", "b"], active="a", shadow="s"), [a, b], KEEP, NOW).shadow_wait,
        plan_residency(Needs(["c"], shadow="s"), [], KEEP, NOW).shadow_wait,
    }
    assert waits == {
        "s",
        "it answers, or is prepared to",
        "waits while b is kept warm for a rollback (model.keep_warm_seconds)",
        "waits for room: a, b are loaded",
        "waits until nothing else is loaded",
    }
