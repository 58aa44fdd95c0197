import math

from hypothesis import given
from hypothesis import strategies as st

from model_store.precision.decider import (
    MAX_UNITS,
    Finding,
    find_fewest,
    group_layers,
    order_steps,
    plan_after,
)

shares = st.floats(0, 1)


@st.composite
def surveys(draw: st.DrawFn) -> list[Finding]:
    findings = []
    for number in range(draw(st.integers(0, 8))):
        for precision in draw(st.sets(st.sampled_from(["bf16", "fp16", "int8"]))):
            speedup = draw(st.none() | st.floats(0.1, 10))
            harms = [draw(shares) for _ in range(3)]
            findings.append(Finding(f"unit{number}", precision, *harms, speedup))  # type: ignore[arg-type]
    return findings


def harm_of(findings: list[Finding], unit: str, precision: str) -> tuple[float, float, float]:
    found = [finding.harm for finding in findings if (finding.unit, finding.precision) == (unit, precision)]
    return found[0] if found else (0.0, 0.0, 0.0)


@given(surveys())
def test_every_step_spares_one_unit_and_the_last_leaves_float32(findings: list[Finding]) -> None:
    steps = order_steps(findings)

    for count, step in enumerate(steps):
        before, after = plan_after(steps, count), plan_after(steps, count + 1)
        assert before[step.unit] == step.before
        assert {**before, step.unit: step.after} == after
        assert harm_of(findings, step.unit, step.after) <= harm_of(findings, step.unit, step.before)
    assert set(plan_after(steps, len(steps)).values()) <= {"fp32"}


@given(surveys())
def test_the_most_harmful_precision_is_given_up_first(findings: list[Finding]) -> None:
    harms = [harm_of(findings, step.unit, step.before) for step in order_steps(findings)]

    assert harms == sorted(harms, reverse=True)


@given(surveys())
def test_no_precision_is_chosen_where_a_less_harmful_one_is_as_fast(findings: list[Finding]) -> None:
    speeds = {(finding.unit, finding.precision): finding.speedup for finding in findings}
    steps = order_steps(findings)

    for step in steps:
        before, after = speeds[step.unit, step.before], speeds.get((step.unit, step.after), 1.0)
        assert before is None or after is None or before > after
    chosen = plan_after(steps, 0)
    for finding in findings:
        if finding.speedup is not None and finding.speedup > 1.02:
            assert finding.unit in chosen


@given(st.integers(0, 200), st.integers(0, 250))
def test_the_fewest_steps_are_found_in_few_judgements(total: int, needed: int) -> None:
    judged: list[int] = []

    def is_within(count: int) -> bool:
        judged.append(count)
        return count >= needed

    assert find_fewest(total, is_within) == (needed if needed <= total else None)
    assert len(judged) <= 2 + math.ceil(math.log2(max(total, 1)))


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_what_is_found_was_itself_within_the_budget(verdicts: list[bool]) -> None:
    found = find_fewest(len(verdicts) - 1, verdicts.__getitem__)

    assert verdicts[found] if found is not None else not (verdicts[0] or verdicts[-1])


@given(st.lists(st.from_regex(r"[ab](\.[0-9]{1,2}){0,2}", fullmatch=True), unique=True, max_size=60))
def test_every_layer_lies_in_exactly_one_unit(paths: list[str]) -> None:
    leaves = [path for path in paths if not any(other.startswith(f"{path}.") for other in paths)]
    units = group_layers(leaves)

    assert len(units) <= MAX_UNITS
    for path in leaves:
        assert sum(f"{path}.".startswith(f"{unit}.") for unit in units) == 1


def test_few_layers_are_units_of_their_own_and_many_are_taken_by_block() -> None:
    few = ["stem", "blocks.0.a", "blocks.0.b", "head"]
    many = ["stem", *(f"blocks.{block}.{layer}" for block in range(16) for layer in "abc"), "head"]

    assert group_layers(few) == few
    assert group_layers(many) == ["stem", *(f"blocks.{block}" for block in range(16)), "head"]
