"""Measure every layer, propose a plan within the budget, judge it on all samples. Knows no torch."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from model_store.precision.agreement import Agreement, Outputs, compare
from model_store.precision.decider import (
    Finding,
    Step,
    choose_base,
    find_fewest,
    group_layers,
    order_steps,
    plan_after,
)
from model_store.precision.laboratory import Laboratory
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
        """Observe, try whole precisions, sweep the units, spare the most harmful ones, race. In that order."""
        self._progress(f"float32 answers of {self._samples.records} records")
        reference = self._lab.answer(FP32, self._samples.batches).outputs
        self._observe()
        whole = [self._judge(name, self._whole(name), reference) for name in self._options.precisions]
        whole = self._race([Candidate("fp32", FP32, self._compare(reference, reference)), *whole])
        base = choose_base(_float_speedups(whole))
        findings = self._sweep(base)
        proposal = self._propose(order_steps(findings, base), base, reference)
        candidates = whole if proposal is None else self._race([*whole, proposal])
        return Report(
            records=self._samples.records,
            refused=self._samples.refused,
            is_classifier=self._is_classifier,
            budget=self._options.budget,
            base=base,
            findings=findings,
            candidates=candidates,
            proposal=None if proposal is None else candidates[-1],
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
            outputs = self._lab.answer(plan, self._samples.batches).outputs
        except ManifestError as error:
            return Candidate(name, plan, failure=str(error))
        return Candidate(name, plan, self._compare(reference, outputs))

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

    def _sweep(self, base: LayerPrecision) -> list[Finding]:
        """Run the units one at a time: in int8 within the base, and in the base within float32."""
        reference = self._lab.answer(FP32, self._few).outputs
        units = group_layers(self._lab.list_quantisable())
        tried: list[tuple[LayerPrecision, LayerPrecision]] = [("fp32", base)] if base != "fp32" else []
        if "int8" in self._options.precisions:
            tried.append((base, "int8"))
        findings: list[Finding] = []
        for around, precision in tried:
            usual = self._lab.answer(PrecisionPlan(around), self._few, units).unit_seconds
            for number, unit in enumerate(units, 1):
                self._progress(f"{unit} as {precision} ({number} of {len(units)})")
                finding = self._measure(unit, precision, around, reference, usual)
                if finding is not None:
                    findings.append(finding)
        return findings

    def _measure(
        self,
        unit: str,
        precision: LayerPrecision,
        around: LayerPrecision,
        reference: Sequence[Outputs],
        usual: Mapping[str, float],
    ) -> Finding | None:
        try:
            answers = self._lab.answer(self._assemble({unit: precision}, around), self._few, [unit])
        except ManifestError as error:
            self._notes.append(f"{unit} cannot run as {precision}: {error}")
            return None
        found = self._compare(reference, answers.outputs)
        before, after = usual.get(unit), answers.unit_seconds.get(unit)
        speedup = before / after if before and after else None
        return Finding(unit, precision, found.disagreement, found.divergence, found.relative_error, speedup)

    def _propose(self, steps: Sequence[Step], base: LayerPrecision, reference: Sequence[Outputs]) -> Candidate | None:
        judged: dict[int, Candidate] = {}

        def is_within_budget(count: int) -> bool:
            plan = self._assemble(plan_after(steps, count), base)
            judged[count] = self._judge(f"{MIXED} with {count} of {len(steps)} steps to float32 taken", plan, reference)
            agreement = judged[count].agreement
            return agreement is not None and agreement.disagreement <= self._options.budget

        fewest = find_fewest(len(steps), is_within_budget)
        if fewest is None or judged[fewest].plan.changes_nothing:
            return None
        return replace(judged[fewest], name=MIXED)

    def _compare(self, reference: Sequence[Outputs], found: Sequence[Outputs]) -> Agreement:
        return compare(reference, found, is_classifier=self._is_classifier)

    def _assemble(self, chosen: Mapping[str, LayerPrecision], base: LayerPrecision) -> PrecisionPlan:
        layers = {unit: precision for unit, precision in chosen.items() if precision != base}
        for path in self._unseen:
            if any(precision == "int8" and f"{path}.".startswith(f"{unit}.") for unit, precision in layers.items()):
                layers[path] = base
        plan = PrecisionPlan("mixed" if base == "fp32" and layers else base, layers)
        return replace(plan, ranges={path: ends for path, ends in self._ranges.items() if plan.is_int8(path)})


def _float_speedups(candidates: Sequence[Candidate]) -> dict[LayerPrecision, float]:
    """Speed of the floating-point precisions at the largest batch."""
    return {
        candidate.plan.root: candidate.speedups[max(candidate.speedups)]
        for candidate in candidates
        if candidate.plan.base != "int8" and candidate.speedups
    }
