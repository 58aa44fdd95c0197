"""Decides about a switch from what the workers report: go on waiting, go ahead, or stop and say who and why.

Pure: reports and time left in, a verdict out. A worker that vanishes counts no more, one that appears counts at once.
"""

import enum
from collections.abc import Callable, Set
from dataclasses import dataclass

from model_store.switch_request import DEFAULT_INSTANT, MAX_LEAD_MS, MIN_LEAD_MS, Instant, Quorum, SwitchRequest
from model_store.timeline import CALL_OFF_MARGIN_MS, Timeline
from model_store.version_history import describe_time
from model_store.worker_reports import REPORT_TTL_SECONDS, Roster, WorkerReport
from schemas.errors import ConfigurationError, PointerConflictError

CALL_OFF_SLACK_MS = 150
"""Time left for Redis to take a call-off, before the last moment at which one is possible."""
MAX_CLOCK_SKEW_MS = 500
"""What is left of the least lead when a worker has held what it knows for fresh as long as it may: 1.5 s."""


class Decision(enum.Enum):
    """What a command does next."""

    WAIT = "wait"
    """Look again."""
    GO = "go"
    """The step is done: take the next one."""
    STOP = "stop"
    """Undo what was begun; the verdict says why."""


class WorkerState(enum.Enum):
    """How far one worker is, in a word for the operator."""

    SILENT = "has not answered"
    PREPARING = "preparing"
    READY = "ready"
    REFUSED = "refused"
    ARMED = "armed"
    GONE = "gone"
    UNREADABLE = "report unreadable"


@dataclass(frozen=True)
class WorkerProgress:
    """One row of what is shown while a switch goes on."""

    worker: str
    state: WorkerState
    host: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Verdict:
    """A decision, and what it rests on."""

    decision: Decision
    rows: tuple[WorkerProgress, ...]
    reason: str = ""
    """Who and why, for a person, when the decision is to stop."""


def check_start(request: SwitchRequest, timeline: Timeline, roster: Roster, now_ms: int) -> None:
    """Refuse what cannot work before anything is begun.

    Raises ConfigurationError for an instant of a first decision, and one that is too near while workers live, too far,
    or before that of a switch that was ended; for clocks that differ too much for an exact switch; and for workers that
    hold a higher epoch than the one to come (Redis has lost decisions). Raises PointerConflictError for another epoch
    than the expected one, and while another switch is armed.
    """
    if request.expected_epoch is not None and request.expected_epoch != timeline.epoch:
        raise PointerConflictError(f"the active epoch is {timeline.epoch}, not {request.expected_epoch}")
    latest = timeline.latest
    if latest is not None and latest.is_armed(now_ms):
        raise PointerConflictError(
            f"epoch {latest.epoch} takes effect in {(latest.effective_from_ms - now_ms) / 1000:.1f} s: try again then,"
            " or end it with `headrace models rollback`"
        )
    known = max(timeline.epoch, request.floor_epoch)
    for report in roster.reports:
        if report.epoch > known:
            raise ConfigurationError(
                f"worker {report.worker} holds epoch {report.epoch} and Redis {timeline.epoch}: Redis has lost"
                f" decisions; --floor-epoch {report.epoch} makes the workers follow again"
            )
    if not timeline.entries and request.instant not in (None, DEFAULT_INSTANT):
        raise ConfigurationError(
            "--at: a model's first decision is one from now on, since no record could meet an older one: leave it out"
        )
    instant = choose_instant(request, timeline, roster)
    check_lead(instant, roster, now_ms)
    if instant is not None:
        _check_clocks(roster, now_ms)
    if instant is not None and latest is not None and instant.resolve(now_ms) < latest.effective_from_ms:
        raise ConfigurationError(
            f"an exact switch cannot come before {describe_time(latest.effective_from_ms)}, the instant of a switch"
            " that was ended: later, or --now"
        )


def _check_clocks(roster: Roster, now_ms: int) -> None:
    """An instant is of one clock, and is held against those of workers and brokers."""
    for report in roster.reports:
        ahead_ms = report.at_ms - now_ms
        # A report may be as old as it is kept, so of a clock that is behind less can be seen.
        behind_ms = -ahead_ms - round(1000 * REPORT_TTL_SECONDS)
        if report.at_ms and max(ahead_ms, behind_ms) > MAX_CLOCK_SKEW_MS:
            side = f"{ahead_ms / 1000:.1f} s ahead of" if ahead_ms > 0 else f"{-ahead_ms / 1000:.1f} s behind"
            raise ConfigurationError(
                f"the clock of worker {report.worker} is {side} this one's, and an exact switch needs clocks that"
                " agree: set them right, or --now"
            )


def choose_instant(request: SwitchRequest, timeline: Timeline, roster: Roster) -> Instant | None:
    """Return the instant of the switch, None for one from now on.

    A first decision is one from now on, since no record could meet an older one; so is one without a wish for another
    instant while no worker lives that could be armed.
    """
    is_free = not has_workers(roster) and request.instant == DEFAULT_INSTANT
    return None if is_free or not timeline.entries else request.instant


def check_lead(instant: Instant | None, roster: Roster, now_ms: int) -> None:
    """Raise ConfigurationError for an instant that is over, too far, or too near for all workers to know of it."""
    if instant is None:
        return
    lead_ms = instant.resolve(now_ms) - now_ms
    needed_ms = MIN_LEAD_MS if has_workers(roster) else 0
    if lead_ms < needed_ms:
        raise ConfigurationError(
            f"an exact switch needs {needed_ms / 1000:g} s ahead, not {lead_ms / 1000:g} s: later, or --now"
        )
    if lead_ms > MAX_LEAD_MS:
        raise ConfigurationError(f"--at: at most {MAX_LEAD_MS // 3_600_000} hours ahead, not {lead_ms / 3_600_000:.0f}")


def has_workers(roster: Roster) -> bool:
    """Whether any worker lives."""
    return bool(roster.reports or roster.unreadable)


def judge_preparation(
    roster: Roster, seen: Set[str], candidate_id: str, quorum: Quorum, seconds_left: float
) -> Verdict:
    """Decide whether enough workers are ready. `seen` are ids of earlier looks, `seconds_left` the rest of the time.

    It stops as soon as refusals leave too few workers, or when the time is over.
    """
    rows = _list_rows(roster, seen, lambda report: _state_of(report, candidate_id))
    live = len(roster.reports) + len(roster.unreadable)
    needed = quorum.count_needed(live)
    ready = sum(row.state is WorkerState.READY for row in rows)
    refused = [row for row in rows if row.state is WorkerState.REFUSED]
    if live and ready >= needed:
        return Verdict(Decision.GO, rows)
    if refused and live - len(refused) < needed:
        return Verdict(Decision.STOP, rows, "; ".join(_accuse(row) for row in refused))
    if seconds_left > 0:
        return Verdict(Decision.WAIT, rows)
    if not live:
        return Verdict(Decision.STOP, rows, "no worker lives any more")
    late = "; ".join(_accuse(row) for row in rows if row.state not in {WorkerState.READY, WorkerState.GONE})
    counted = f"{ready} of {live} workers were ready in time, {needed} are needed"
    return Verdict(Decision.STOP, rows, f"{counted}: {late}" if late else counted)


def judge_arming(roster: Roster, seen: Set[str], epoch: int, needs_warm: Set[str], ms_left: int) -> Verdict:
    """Decide whether every live worker acts on `epoch` and has the versions `needs_warm` ready to take batches."""

    def state(report: WorkerReport) -> WorkerState:
        is_armed = report.epoch >= epoch and needs_warm <= set(report.warm)
        return WorkerState.ARMED if is_armed else WorkerState.SILENT

    rows = _list_rows(roster, seen, state)
    live = [row for row in rows if row.state is not WorkerState.GONE]
    late = [row for row in live if row.state is not WorkerState.ARMED]
    if live and not late:
        return Verdict(Decision.GO, rows)
    if ms_left > 0:
        return Verdict(Decision.WAIT, rows)
    who = ", ".join(row.worker for row in late)
    return Verdict(Decision.STOP, rows, f"not armed in time: {who}" if who else "no worker lives that could be armed")


def count_ms_to_decide(effective_from_ms: int, now_ms: int) -> int:
    """Return how long workers may still take to arm before the switch has to be called off."""
    return effective_from_ms - CALL_OFF_MARGIN_MS - CALL_OFF_SLACK_MS - now_ms


def _list_rows(
    roster: Roster, seen: Set[str], state: Callable[[WorkerReport], WorkerState]
) -> tuple[WorkerProgress, ...]:
    rows = [
        WorkerProgress(report.worker, state(report), report.host, _detail(report, state(report)))
        for report in roster.reports
    ]
    rows += [WorkerProgress(worker, WorkerState.UNREADABLE) for worker in roster.unreadable]
    there = {row.worker for row in rows}
    rows += [WorkerProgress(worker, WorkerState.GONE) for worker in seen - there]
    return tuple(sorted(rows, key=lambda row: row.worker))


def _state_of(report: WorkerReport, candidate_id: str) -> WorkerState:
    if report.refused is not None and report.refused.candidate == candidate_id:
        return WorkerState.REFUSED
    if report.ready == candidate_id:
        return WorkerState.READY
    return WorkerState.PREPARING if report.preparing == candidate_id else WorkerState.SILENT


def _detail(report: WorkerReport, state: WorkerState) -> str:
    return report.refused.reason if state is WorkerState.REFUSED and report.refused is not None else ""


def _accuse(row: WorkerProgress) -> str:
    where = f" on {row.host}" if row.host else ""
    return f"worker {row.worker}{where} {row.state.value}" + (f": {row.detail}" if row.detail else "")
