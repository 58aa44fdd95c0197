"""Decides what happens to the records of a batch that did not simply succeed. Pure; nobody else decides this.

A batch that *raises* is halved until the culprit stands alone, and a lone record gets one more try before it becomes a
dead letter: at most `2·log2 n + 2` extra runs for one culprit in n. A batch whose process *died* runs once more, one
record at a time, in which mode the next death names its record exactly: at most two restarts for one killer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from schemas.errors import scrub
from schemas.records import ErrorDetail, Stage
from stream_workers.batching.work import RunMode, WorkItem

MAX_LONE_FAILURES = 2
MAX_BLAMELESS_LOSSES = 4


@dataclass(slots=True)
class Verdict:
    """Records to run again, in which company and mode, and records to refuse, with the reason."""

    rerun: list[tuple[Sequence[WorkItem], RunMode]] = field(default_factory=list)
    rejected: list[tuple[WorkItem, ErrorDetail]] = field(default_factory=list)


def after_raise(items: Sequence[WorkItem], stage: Stage, error_class: str, message: str) -> Verdict:
    """Judge a batch as a whole that raised: halve it, or retry, or refuse a record that failed alone twice."""
    for item in items:
        item.attempts += 1
    if len(items) > 1:
        middle = len(items) // 2
        return Verdict(rerun=[(items[:middle], RunMode.TOGETHER), (items[middle:], RunMode.TOGETHER)])
    item = items[0]
    item.lone_failures += 1
    if item.lone_failures < MAX_LONE_FAILURES:
        return Verdict(rerun=[(items, RunMode.TOGETHER)])
    return Verdict(rejected=[(item, _detail(stage, "model_failure", error_class, message, item))])


def after_loss(items: Sequence[WorkItem], mode: RunMode, *, suspect: bool, culprit: int | None, code: str) -> Verdict:
    """Judge the unanswered records of a batch whose model process ended. `culprit` is an index into `items`.

    A batch that had not begun runs again as it was, without blame.
    """
    if not items:
        return Verdict()
    if not suspect:
        return Verdict(rerun=[(items, mode)])
    for item in items:
        item.attempts += 1
    if mode is RunMode.TOGETHER:
        return Verdict(rerun=[(items, RunMode.ISOLATED)])
    if culprit is None and items[0].attempts < MAX_BLAMELESS_LOSSES:
        # It ended between two records, so someone else ended it: an operator, or the kernel short of memory.
        return Verdict(rerun=[(items, RunMode.ISOLATED)])
    index = culprit if culprit is not None and 0 <= culprit < len(items) else 0
    killer = items[index]
    message = f"the model process ended while it worked on this record alone ({code})"
    verdict = Verdict(rejected=[(killer, _detail(Stage.MODEL, code, "ModelFailureError", message, killer))])
    rest = [*items[:index], *items[index + 1 :]]
    if rest:
        verdict.rerun.append((rest, RunMode.ISOLATED))
    return verdict


def _detail(stage: Stage, code: str, error_class: str, message: str, item: WorkItem) -> ErrorDetail:
    return ErrorDetail(
        stage=stage, code=code, error_class=error_class, message=scrub(message), attempts=max(1, item.attempts)
    )


class Breaker:
    """Keeps a model that fails on everything from burning through the topic.

    Opens after `threshold` records were refused on the model's account with no answer in between. While it is open new
    batches wait, longer after each failed probe up to `max_wait_seconds`; one answer closes it. It drops nothing.
    """

    def __init__(self, threshold: int = 20, first_wait_seconds: float = 0.05, max_wait_seconds: float = 0.5) -> None:
        self._threshold = threshold
        self._first_wait = first_wait_seconds
        self._max_wait = max_wait_seconds
        self._failures = 0
        self._wait = first_wait_seconds
        self._next_probe_at = 0.0

    @property
    def is_open(self) -> bool:
        """True while the model has answered nothing since the threshold was reached."""
        return self._failures >= self._threshold

    def allows(self, now: float) -> bool:
        """True when a new batch may be submitted at `now`; while open, each permission is one probe."""
        if not self.is_open:
            return True
        if now < self._next_probe_at:
            return False
        self._next_probe_at = now + self._wait
        self._wait = min(self._max_wait, self._wait * 2)
        return True

    def note_answer(self) -> None:
        """The model answered a record: close."""
        self._failures = 0
        self._wait = self._first_wait

    def note_failure(self, now: float) -> None:
        """A record was refused on the model's account at `now`."""
        self._failures += 1
        if self._failures == self._threshold:
            self._next_probe_at = now + self._wait
