"""The result cache: what it costs when every input is new, and what it gives when inputs come again."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.contestants.catalogue import CONTESTANTS
from benchmarks.figures import choose_backlog, ratio, summarise
from benchmarks.report.section import Section
from benchmarks.runner.arena import Run, Variant
from benchmarks.scenarios.scenario import Context
from benchmarks.workloads.specification import FRAMES, Workload

COLUMNS = ("inputs", "cache", "records/s", "lowest", "highest", "x off", "agreeing", "rounds")


class Cache:
    """The cache scenario."""

    name = "cache"

    def __init__(self, workload: Workload = FRAMES) -> None:
        self._workload = workload

    def run(self, context: Context) -> Section:
        """See :class:`benchmarks.scenarios.scenario.Scenario`."""
        section = Section(self.name, f"the result cache: {self._workload.title}", COLUMNS)
        contestant = CONTESTANTS["headrace"]
        rate = context.capacity(self._workload, contestant)
        backlog = self._workload.ladder[0]
        if not context.options.is_check:
            backlog = choose_backlog(rate, context.options.seconds, self._workload.ladder)
        runs = self._play(context, backlog)
        medians = {key: summarise([run.per_second for run in values]).median for key, values in runs.items()}
        for (inputs, cache), values in runs.items():
            section.rows.append(_describe(inputs, cache, values, medians[inputs, "off"]))
        cost = medians["unique", "on"] / medians["unique", "off"]
        section.notes.append(f"On unique inputs the cache leaves {cost:.1%} of the throughput without it.")
        section.notes.append("Unique inputs are the same frames, each with a comment of its own in the JPEG.")
        return section

    def _play(self, context: Context, backlog: int) -> Mapping[tuple[str, str], Sequence[Run]]:
        contestant = CONTESTANTS["headrace"]
        keys = [(inputs, cache) for inputs in ("unique", "repeated") for cache in ("off", "on")]
        runs: dict[tuple[str, str], list[Run]] = {key: [] for key in keys}
        rounds = 1 if context.options.is_check else context.options.rounds
        for number in range(rounds):
            for position in range(len(keys)):
                inputs, cache = keys[(number + position) % len(keys)]
                context.say(f"cache: round {number + 1} of {rounds}, {inputs} inputs, cache {cache}")
                variant = Variant({"cache": {"enabled": cache == "on"}}, add_comment if inputs == "unique" else None)
                runs[inputs, cache].append(context.arena.measure(self._workload, contestant, backlog, variant))
        return runs


def add_comment(jpeg: bytes, number: int) -> bytes:
    """The same picture in other bytes: a COM segment behind the SOI marker (ITU-T T.81, B.2.4.5)."""
    text = b"%012d" % number
    return jpeg[:2] + b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text + jpeg[2:]


def _describe(inputs: str, cache: str, runs: Sequence[Run], off: float) -> dict[str, Any]:
    spread = summarise([run.per_second for run in runs])
    return {
        "inputs": inputs,
        "cache": cache,
        "records/s": spread.median,
        "lowest": spread.low,
        "highest": spread.high,
        "x off": ratio(spread.median, off),
        "agreeing": min(run.agreement.share for run in runs if run.agreement is not None),
        "rounds": len(runs),
    }
