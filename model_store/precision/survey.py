"""Measure every layer, propose a plan within the budget, judge it on all samples. Knows no torch."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from model_store.precision.agreement import Agreement, Outputs, compare
from model_store.precision.decider import (
    Finding,
    Step,
    find_fewest,
    group_layers,
    order_steps,
    plan_after,
)
from model_store.precision.laboratory import Answers, Laboratory
from model_store.precision.report import MIXED, Candidate, Report
from model_store.precision.samples import Batch, Samples
from model_store.precision_plan import FP32, PrecisionPlan
from schemas.errors import ManifestError
from schemas.precision import LayerPrecision

Progress = Callable[[str], None]


@dataclass(frozen=True)
class SurveyOptions:
    """What is tried and how thoroughly."""

    precisions: Sequence[LayerPrecision]
    budget: float = 0.01
    """Largest share of samples whose likeliest class may change; for other outputs, largest relative error."""
    sweep_records: int = 128
    """Samples on which single units are measured and ranges found; the result is judged on all."""
    rounds: int = 7
    accept_slower: bool = False
    """Whether a plan that is no faster than float32 on this host may be proposed."""


class Survey:
    """One run over one network. `run` is the whole of it."""

    def __init__(self, lab: Laboratory, samples: Samples, options: SurveyOptions, progress: Progress) -> None:
        self._lab = lab
        self._samples = samples
        self._options = options
        self._progress = progress
        self._few = samples.thin_out(options.sweep_records)
        self._is_classifier = lab.is_classifier(samples.batches[0])
        self._notes: list[str] = []
        self._ranges: dict[str, tuple[float, float]] = {}
        self._unseen: list[str] = []

    def run(self) -> Report:
        """Observe, judge whole precisions, sweep the units, spare the most harmful ones, race. In that order."""
        self._progress(f"float32 answers of {self._samples.records} records")
        exact = self._lab.answer(FP32, self._samples.batches)
        reference = exact.outputs
        self._observe()
        itself = self._compare(reference, reference)
        candidates = [Candidate("fp32", FP32, itself, weight_bytes=exact.weight_bytes)]
        candidates += [self._judge(name, self._whole(name), reference) for name in self._options.precisions]
        findings = self._sweep()
        mixed = self._spare(order_steps(findings), reference)
        candidates = self._race(candidates if mixed is None else [*candidates, mixed])
        return Report(
            records=self._samples.records,
            refused=self._samples.refused,
            is_classifier=self._is_classifier,
            budget=self._options.budget,
            findings=findings,
            candidates=candidates,
            proposal=choose_proposal(candidates, self._options.budget, accept_slower=self._options.accept_slower),
            notes=self._notes,
        )

    def _observe(self) -> None:
        """Find the input range of every layer that may run in int8, and say which cannot."""
        if "int8" not in self._options.precisions:
            return
        self._progress("input ranges of the layers")
        seen = self._lab.observe(self._few)
        for path in self._lab.list_quantisable():
            found = seen[path].choose_range() if path in seen else None
            if found is None:
                self._unseen.append(path)
                reason = "saw no finite number" if path in seen else "was not called"
                self._notes.append(f"{path} {reason} on the samples: it is not quantised")
                continue
            self._ranges[path] = found
            if seen[path].not_finite:
                self._notes.append(
                    f"{path}: {seen[path].not_finite} inputs were NaN or infinite, left out of its range"
                )

    def _whole(self, precision: LayerPrecision) -> PrecisionPlan:
        if precision != "int8":
            return PrecisionPlan(precision)
        return PrecisionPlan("int8", dict.fromkeys(self._unseen, "fp32"), self._ranges)

    def _judge(self, name: str, plan: PrecisionPlan, reference: Sequence[Outputs]) -> Candidate:
        self._progress(f"the whole network as {name}")
        try:
            answers = self._lab.answer(plan, self._samples.batches)
        except ManifestError as error:
            return Candidate(name, plan, failure=str(error))
        return Candidate(name, plan, self._compare(reference, answers.outputs), weight_bytes=answers.weight_bytes)

    def _race(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        runners = [candidate for candidate in candidates if candidate.agreement is not None]
        plans = [candidate.plan for candidate in runners]
        medians: dict[str, dict[int, float]] = {candidate.name: {} for candidate in runners}
        spreads: dict[str, dict[int, tuple[float, float]]] = {candidate.name: {} for candidate in runners}
        for batch in self._race_batches():
            self._progress(f"{len(runners)} precisions in turn at batch {batch.records}")
            seconds = self._lab.race(plans, batch, self._options.rounds)
            for candidate, own in zip(runners, seconds, strict=True):
                ratios = [whole / part for whole, part in zip(seconds[0], own, strict=True)]
                medians[candidate.name][batch.records] = statistics.median(ratios)
                spreads[candidate.name][batch.records] = (min(ratios), max(ratios))
        return [
            replace(one, speedups=medians[one.name], spreads=spreads[one.name]) if one.name in medians else one
            for one in candidates
        ]

    def _race_batches(self) -> list[Batch]:
        largest = max(self._samples.batches, key=lambda batch: batch.records)
        single = self._samples.single
        return [largest] if single is None or largest.records == 1 else [single, largest]

    def _sweep(self) -> list[Finding]:
        """Run the units one at a time in each precision, all else in float32."""
        units = group_layers(self._lab.list_quantisable())
        usual = self._lab.answer(FP32, self._few, units)
        findings: list[Finding] = []
        for number, unit in enumerate(units, 1):
            for precision in self._options.precisions:
                self._progress(f"{unit} as {precision} ({number} of {len(units)})")
                finding = self._measure(unit, precision, usual)
                if finding is not None:
                    findings.append(finding)
        return findings

    def _measure(self, unit: str, precision: LayerPrecision, usual: Answers) -> Finding | None:
        try:
            answers = self._lab.answer(self._assemble({unit: precision}), self._few, [unit])
        except ManifestError as error:
            self._notes.append(f"{unit} cannot run as {precision}: {error}")
            return None
        found = self._compare(usual.outputs, answers.outputs)
        before, after = usual.unit_seconds.get(unit), answers.unit_seconds.get(unit)
        speedup = before / after if before and after else None
        return Finding(unit, precision, found.disagreement, found.divergence, found.relative_error, speedup)

    def _spare(self, steps: Sequence[Step], reference: Sequence[Outputs]) -> Candidate | None:
        """Take the fewest steps that keep the budget; None when that leaves float32 alone."""
        judged: dict[int, Candidate] = {}

        def is_within_budget(count: int) -> bool:
            name = f"{MIXED}, {count} of {len(steps)} steps towards float32 taken"
            judged[count] = self._judge(name, self._assemble(plan_after(steps, count)), reference)
            return count == len(steps) or judged[count].keeps(self._options.budget)

        fewest = find_fewest(len(steps), is_within_budget)
        if fewest is None or judged[fewest].plan.changes_nothing:
            return None
        return replace(judged[fewest], name=MIXED)

    def _compare(self, reference: Sequence[Outputs], found: Sequence[Outputs]) -> Agreement:
        return compare(reference, found, is_classifier=self._is_classifier)

    def _assemble(self, chosen: Mapping[str, LayerPrecision]) -> PrecisionPlan:
        layers = {unit: precision for unit, precision in chosen.items() if precision != "fp32"}
        plan = PrecisionPlan("mixed" if layers else "fp32", layers)
        unseen: dict[str, LayerPrecision] = {path: "fp32" for path in self._unseen if plan.is_int8(path)}
        plan = replace(plan, layers=layers | unseen)
        return replace(plan, ranges={path: ends for path, ends in self._ranges.items() if plan.is_int8(path)})


def choose_proposal(candidates: Sequence[Candidate], budget: float, *, accept_slower: bool) -> Candidate | None:
    """The candidate other than float32 that keeps the budget and is fastest at the largest batch.

    None when that is no faster than float32, unless slower ones are accepted.
    """
    kept = [one for one in candidates if one.keeps(budget) and (accept_slower or one.is_faster)]
    return max(kept, key=lambda one: one.speed, default=None)
