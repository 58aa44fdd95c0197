"""The survey against a network that is only numbers: how wrong each precision makes each unit is drawn."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_store.precision.agreement import Agreement, Outputs
from model_store.precision.calibration import InputStatistics
from model_store.precision.laboratory import Answers
from model_store.precision.report import Candidate, Report
from model_store.precision.samples import Batch, Samples
from model_store.precision.survey import Survey, SurveyOptions, choose_proposal
from model_store.precision_plan import FP32, PrecisionPlan
from schemas.errors import ManifestError
from schemas.precision import LayerPrecision

UNITS = ["a", "b", "c", "d"]
SMALL: list[LayerPrecision] = ["bf16", "int8"]
RECORDS = 50


class NumbersOnly:
    """Each (unit, precision) turns a share of the answers, and takes a share of float32's seconds."""

    def __init__(self, harm: Mapping[tuple[str, str], float], seconds: Mapping[str, float]) -> None:
        self._harm = harm
        self._seconds = {"fp32": 1.0, **seconds}
        self.fails_in = ""

    def list_quantisable(self) -> list[str]:
        return UNITS

    def is_classifier(self, batch: Batch) -> bool:
        return True

    def observe(self, batches: Sequence[Batch]) -> dict[str, InputStatistics]:
        seen = InputStatistics()
        seen.add(np.linspace(-1, 1, 9, dtype=np.float32), 9)
        return dict.fromkeys(UNITS, seen)

    def answer(self, plan: PrecisionPlan, batches: Sequence[Batch], timed_units: Sequence[str] = ()) -> Answers:
        chosen = {unit: _precision_of(plan, unit) for unit in UNITS}
        if self.fails_in in chosen.values():
            raise ManifestError("cannot run")
        turned = sum(self._harm.get(pair, 0.0) for pair in chosen.items())
        outputs = [_answers(batch.records, turned) for batch in batches]
        return Answers(outputs, {unit: self._seconds[chosen[unit]] for unit in timed_units}, 100)

    def race(self, plans: Sequence[PrecisionPlan], batch: Batch, rounds: int) -> list[list[float]]:
        return [[sum(self._seconds[_precision_of(plan, unit)] for unit in UNITS)] * rounds for plan in plans]


def _precision_of(plan: PrecisionPlan, unit: str) -> str:
    return "int8" if plan.is_int8(unit) else plan.float_precision(unit)


def _answers(records: int, turned_share: float) -> Outputs:
    logits = np.zeros((records, 2), np.float32)
    logits[:, 0] = 1.0
    logits[: round(records * min(turned_share, 1.0)), 0] = -1.0
    return logits


def survey(lab: NumbersOnly, budget: float, *, accept_slower: bool = False) -> Report:
    samples = Samples([Batch(None, RECORDS)], Batch(None, 1))
    return Survey(lab, samples, SurveyOptions(SMALL, budget, accept_slower=accept_slower), lambda _: None).run()


harms = st.fixed_dictionaries(
    {(unit, small): st.sampled_from([0, 0.02, 0.1, 0.4]) for unit in UNITS for small in SMALL}
)
durations = st.fixed_dictionaries({small: st.sampled_from([0.25, 0.5, 0.9, 1.0, 1.5]) for small in SMALL})
budgets = st.sampled_from([0.0, 0.02, 0.1, 0.3, 1.0])


@given(harms, durations, budgets, st.booleans())
def test_no_proposal_lies_beyond_the_budget_or_is_slower(
    harm: Any, seconds: Any, budget: float, accept_slower: bool
) -> None:
    report = survey(NumbersOnly(harm, seconds), budget, accept_slower=accept_slower)

    if report.proposal is not None:
        assert report.proposal.agreement is not None
        assert report.proposal.agreement.disagreement <= budget
        assert accept_slower or report.proposal.speed > 1.0
        again = NumbersOnly(harm, seconds).answer(report.proposal.plan, [Batch(None, RECORDS)])
        assert (again.outputs[0].argmax(axis=1) != 0).mean() <= budget


@given(harms, durations)
def test_a_larger_budget_never_makes_the_proposal_slower(harm: Any, seconds: Any) -> None:
    proposals = [survey(NumbersOnly(harm, seconds), budget).proposal for budget in (0.0, 0.02, 0.1, 0.3, 1.0)]
    speeds = [1.0 if proposal is None else proposal.speed for proposal in proposals]

    assert speeds == sorted(speeds)


def test_the_harmful_unit_is_spared_and_the_others_are_not() -> None:
    lab = NumbersOnly({("b", "bf16"): 0.5}, {"bf16": 0.5, "int8": 2.0})

    proposal = survey(lab, 0.01).proposal

    assert proposal is not None
    assert proposal.plan == PrecisionPlan("mixed", {"a": "bf16", "c": "bf16", "d": "bf16"})


def test_plans_that_are_only_slower_are_named_and_not_proposed() -> None:
    lab = NumbersOnly({}, {"bf16": 1.5, "int8": 1.5})

    report = survey(lab, 0.01)

    assert report.proposal is None
    assert [one.name for one in report.slower] == ["bf16", "int8"]
    assert survey(lab, 0.01, accept_slower=True).proposal is not None


def test_a_precision_in_which_the_network_cannot_run_is_reported_and_left_out() -> None:
    lab = NumbersOnly({}, {"bf16": 0.5, "int8": 0.25})
    lab.fails_in = "int8"

    report = survey(lab, 0.01)

    assert [one.failure for one in report.candidates if one.name == "int8"] == ["cannot run"]
    assert report.proposal is not None
    assert "int8" not in report.proposal.plan.used()


@pytest.mark.parametrize(("speed", "proposed"), [(1.5, True), (1.01, False), (0.5, False)])
def test_a_speed_within_the_noise_is_no_gain(speed: float, proposed: bool) -> None:
    exact = Candidate("fp32", FP32, Agreement(9, 0, 0, 0, 0), {1: 1.0})
    small = Candidate("bf16", PrecisionPlan("bf16"), Agreement(9, 0, 0, 0, 0), {1: speed})

    assert (choose_proposal([exact, small], 0.0, accept_slower=False) is small) is proposed
