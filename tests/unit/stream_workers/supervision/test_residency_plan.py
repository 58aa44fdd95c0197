"""Which versions are loaded and let go, for whatever is wanted and whatever is there."""

from hypothesis import given
from hypothesis import strategies as st

from stream_workers.supervision.residency_plan import ROOMY_VERSIONS, Held, Needs, plan_residency

NAMES = list("abcdef")
NOW, KEEP = 1000.0, 100.0

names = st.lists(st.sampled_from(NAMES), unique=True, max_size=3)
needs = st.builds(
    Needs, names, names, st.none() | st.sampled_from(NAMES), st.frozensets(st.sampled_from(NAMES), max_size=2)
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
