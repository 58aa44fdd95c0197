"""From what a model process said of a batch to one outcome per record, by the failure policy."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from schemas.records import ErrorDetail, Stage, Timings
from stream_workers.batching.failure_policy import Verdict, after_loss, after_raise
from stream_workers.batching.work import Answer, Expired, Rejected, Rerun, RunMode, ServedVersion, WorkItem
from stream_workers.parts import WorkerParts
from stream_workers.pipeline.contract import (
    BatchAnswered,
    BatchLost,
    BatchOutcome,
    BatchRaised,
    RecordExpired,
    RecordOutcome,
)

_log = structlog.get_logger("worker")


@dataclass(slots=True)
class Judged:
    """Records that have their outcome now, and records that run again."""

    answered: list[WorkItem] = field(default_factory=list)
    reruns: list[Rerun] = field(default_factory=list)


def judge(outcome: BatchOutcome, parts: WorkerParts, now: float) -> Judged:
    """Give each record of a finished batch its outcome, or another run. Records that expired meanwhile keep that."""
    judged = Judged()
    if isinstance(outcome, BatchAnswered):
        _take_answers(outcome, outcome.outcomes, outcome.model_ms, judged, parts, now)
        parts.metrics.batching.note_answered(outcome)
        parts.shadow.copy(outcome)
        if outcome.batch.mode is RunMode.TOGETHER:
            parts.wait.note_service(len(outcome.batch.items), outcome.model_ms / 1000)
        return judged
    items = outcome.batch.items
    if isinstance(outcome, BatchRaised):
        parts.metrics.batching.failed_runs.labels("raised").inc()
        verdict = after_raise(_open(items), outcome.stage, outcome.error_class, outcome.message) if items else Verdict()
    else:
        verdict = _judge_loss(outcome, judged, parts, now)
    for item, error in verdict.rejected:
        if item.outcome is None:
            _reject(item, error, outcome.version, judged, parts, now)
    judged.reruns += [Rerun(again, mode, outcome.batch.version) for again, mode in verdict.rerun]
    return judged


def _judge_loss(lost: BatchLost, judged: Judged, parts: WorkerParts, now: float) -> Verdict:
    items = lost.batch.items
    _log.warning("batch lost", code=lost.code, detail=lost.detail, records=len(items), suspect=lost.suspect)
    parts.metrics.batching.failed_runs.labels(lost.code).inc()
    done = len(lost.answered)
    _take_answers(lost, lost.answered, 0.0, judged, parts, now)
    left = _open(items[done:])
    culprit = None
    if lost.culprit is not None and done <= lost.culprit < len(items) and items[lost.culprit] in left:
        culprit = left.index(items[lost.culprit])
    return after_loss(left, lost.batch.mode, suspect=lost.suspect, culprit=culprit, code=lost.code)


def _open(items: Sequence[WorkItem]) -> list[WorkItem]:
    return [item for item in items if item.outcome is None]


def _take_answers(
    source: BatchAnswered | BatchLost,
    outcomes: Sequence[RecordOutcome],
    model_ms: float,
    judged: Judged,
    parts: WorkerParts,
    now: float,
) -> None:
    version, size = source.version, len(source.batch.items)
    timings: dict[float, Timings] = {}
    for item, outcome in zip(source.batch.items, outcomes, strict=False):
        if item.outcome is not None:
            continue
        polled_at = item.polled_at
        timing = timings.get(polled_at)
        if timing is None:
            queue_ms = (now - polled_at) * 1000 - model_ms
            timing = timings[polled_at] = Timings(round(max(0.0, queue_ms), 3), round(model_ms, 3), size)
        if isinstance(outcome, bytes):
            item.outcome = Answer(outcome, version, timing)
            judged.answered.append(item)
        elif isinstance(outcome, RecordExpired):
            item.outcome = Expired(version, timing)
            judged.answered.append(item)
        else:
            detail = ErrorDetail(
                stage=outcome.stage,
                code=outcome.code,
                error_class=outcome.error_class,
                message=outcome.message,
                attempts=item.attempts + 1,
            )
            _reject(item, detail, version, judged, parts, now)
    if judged.answered:
        parts.breaker.note_answer()


def _reject(
    item: WorkItem, error: ErrorDetail, version: ServedVersion, judged: Judged, parts: WorkerParts, now: float
) -> None:
    item.outcome = Rejected(error, version)
    judged.answered.append(item)
    if error.stage is Stage.MODEL:
        parts.breaker.note_failure(now)
