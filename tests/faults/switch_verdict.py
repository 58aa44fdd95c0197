"""What a soak of switches has shown, held against what it was to show. Pure."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.figures import percentile
from tests.faults.answer_watch import Window
from tests.faults.switch_log import Meeting
from tests.faults.switch_rounds import EXACT, ROLLBACK, SETTLE_SECONDS, Round

MEMORY_GROWTH = 0.1
MEMORY_FROM = 5
"""After so many switches everything that is kept has been allocated once."""
STALL_GOAL_MS = 5.0
ROLLBACK_LIMIT_MS = 100.0

Latencies = Callable[[Sequence[Window]], list[float]]


@dataclass(frozen=True)
class Row:
    """One line of the verdict."""

    what: str
    value: str
    bound: str = ""
    is_held: bool | None = None
    """None: a figure without a bound."""
    is_timing: bool = False
    """It depends on the machine being quiet."""


def count_row(what: str, count: int) -> Row:
    """A count that has to be 0."""
    return Row(what, str(count), "0", count == 0)


def judge_rounds(rounds: Sequence[Round]) -> list[Row]:
    """Whether every switch was made, or came to nothing lawfully and was made when tried again."""
    by_kind = {kind: sum(one.kind == kind for one in rounds) for kind in dict.fromkeys(one.kind for one in rounds)}
    stuck = [f"switch {one.number}: {one.stuck}" for one in rounds if one.stuck]
    stuck += [f"switch {one.number} came to nothing twice: {one.reason}" for one in rounds if one.entry is None]
    return [
        Row("switches", ", ".join(f"{count} {kind}" for kind, count in by_kind.items())),
        Row("disturbed", str(sum(bool(one.fault) for one in rounds))),
        Row("called off or refused, then made again", str(sum(one.called_off for one in rounds))),
        Row("switches that went wrong", "; ".join(stuck) or "0", "0", not stuck),
    ]


def judge_memory(rounds: Sequence[Round]) -> list[Row]:
    """Memory after the last switch against that after the fifth."""
    sizes = {one.number + 1: one.memory_bytes for one in rounds}
    if len(sizes) <= MEMORY_FROM:
        return []
    first, last = sizes[MEMORY_FROM], sizes[max(sizes)]
    value = f"{first / 2**20:.0f} MiB after switch {MEMORY_FROM}, {last / 2**20:.0f} after {max(sizes)}"
    value += f", at most {max(sizes.values()) / 2**20:.0f}"
    return [Row("memory (PSS)", value, f"+{MEMORY_GROWTH:.0%}", last <= first * (1 + MEMORY_GROWTH), is_timing=True)]


def judge_latency(rounds: Sequence[Round], latencies: Latencies, service_seconds: float) -> list[Row]:
    """Latency while nothing switches, while workers prepare, and from a commit to a second after its effect."""
    calm = latencies([(before.ended, after.began) for before, after in itertools.pairwise(rounds) if not before.fault])
    # A command as a process of its own competes for these cores, which it would not do where it belongs.
    own = [one for one in rounds if not one.fault and not one.by_command and one.entry is not None]
    preparing = latencies([(one.began, one.committed) for one in own])
    during = latencies([(one.committed, _effect(one) + SETTLE_SECONDS) for one in own])
    bound = percentile(calm, 0.99) + service_seconds
    is_held = percentile(during, 0.99) <= bound if calm and during else None
    text = f"{percentile(calm, 0.99) * 1000:.1f} ms + a batch of {service_seconds * 1000:.1f} ms"
    return [
        Row("latency between switches", _describe(calm)),
        Row("latency while preparing", _describe(preparing)),
        Row("latency during switches, p99", _describe(during), f"<= {text}", is_held, is_timing=True),
    ]


def judge_stalls(rounds: Sequence[Round], meetings: Sequence[Mapping[int, Meeting]]) -> list[Row]:
    """For how long switches kept members from starting batches. A goal: it does not decide."""
    rows = []
    for name, chosen in (
        ("stall", [one for one in rounds if not one.fault]),
        ("stall, disturbed", [one for one in rounds if one.fault]),
    ):
        epochs = [one.entry.epoch for one in chosen if one.entry is not None]
        stalls = [met[epoch].stalled_ms for met in meetings for epoch in epochs if epoch in met and met[epoch].met_at]
        if stalls:
            text = f"p50 {percentile(stalls, 0.5):.2f}, p99 {percentile(stalls, 0.99):.2f}, max {max(stalls):.2f} ms"
            goal = f"goal p99 <= {STALL_GOAL_MS:g} ms" if name == "stall" else ""
            rows.append(Row(name, f"{text} ({len(stalls)})", goal))
    return rows


def judge_rollbacks(rounds: Sequence[Round], meetings: Sequence[Mapping[int, Meeting]]) -> list[Row]:
    """How long a rollback takes to reach the workers: the last of them counts."""
    adopted, met, command = [], [], []
    for one in rounds:
        if one.kind != ROLLBACK or one.fault or one.entry is None:
            continue
        found = [by_epoch.get(one.entry.epoch, Meeting()) for by_epoch in meetings]
        if not all(each.met_at for each in found):
            continue
        adopted.append(1000 * (max(each.adopted_at for each in found) - one.committed))
        met.append(1000 * (max(each.met_at for each in found) - one.committed))
        if one.by_command:
            command.append(1000 * (max(each.met_at for each in found) - one.began))
    if not met:
        return []
    return [
        Row("rollback: commit to adoption by all", _describe_ms(adopted)),
        Row(
            "rollback: commit to first batch, all",
            _describe_ms(met),
            f"max <= {ROLLBACK_LIMIT_MS:g} ms",
            max(met) <= ROLLBACK_LIMIT_MS,
            is_timing=True,
        ),
        *([Row("rollback: start of the command's process to first batch, all", _describe_ms(command))] * bool(command)),
    ]


def _effect(one: Round) -> float:
    return one.entry.effective_from_ms / 1000 if one.entry is not None and one.kind == EXACT else one.committed


def _describe(seconds: Sequence[float]) -> str:
    return _describe_ms([1000 * one for one in seconds], with_p99=True)


def _describe_ms(values: Sequence[float], *, with_p99: bool = False) -> str:
    if not values:
        return "nothing measured"
    p99 = f", p99 {percentile(values, 0.99):.1f}" if with_p99 else ""
    return f"p50 {percentile(values, 0.5):.1f}{p99}, max {max(values):.1f} ms ({len(values)})"
