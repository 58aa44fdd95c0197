"""Switches a model's versions with its workers: prepare, commit, arm, and confirm or call off.

A thin driver around :mod:`model_store.switch_decisions`; doors and clocks are passed in. Whatever ends it early, an
error or Ctrl-C, the candidate is withdrawn and a switch that is still to come is called off.
"""

import secrets
from collections.abc import Callable, Mapping, Set
from contextlib import suppress

from model_store.switch_contract import SwitchClock, SwitchOutcome, SwitchResult, SwitchView, TimelineDoor, WorkersDoor
from model_store.switch_decisions import (
    Decision,
    Verdict,
    WorkerState,
    check_lead,
    check_start,
    choose_instant,
    count_ms_to_decide,
    has_workers,
    judge_arming,
    judge_preparation,
)
from model_store.switch_request import SwitchRequest
from model_store.timeline import MAX_REASON_CHARS, NOBODY, Author, SwitchMode, Timeline, TimelineEntry
from model_store.worker_reports import REPORT_EVERY_SECONDS, Candidate, Roster, clean_text
from schemas.errors import InvalidPointerError, PipelineError, PointerConflictError, UnavailableError

LOOK_EVERY_SECONDS = 0.05
RENEW_EVERY_SECONDS = 2.0
PATIENCE_SECONDS = 10.0
"""How long Redis may be silent before a command gives up."""
ADOPTION_SECONDS = 5.0
"""How long a command waits to hear that the workers act on a switch from now on."""


class ModelSwitch:
    """Activates and rolls back the versions of one model. `show` is told what goes on."""

    def __init__(
        self,
        model: str,
        versions: TimelineDoor,
        workers: WorkersDoor,
        clock: SwitchClock,
        show: Callable[[SwitchView], None],
        make_id: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._model = model
        self._versions = versions
        self._workers = workers
        self._clock = clock
        self._show = show
        self._make_id = make_id

    def activate(self, request: SwitchRequest) -> SwitchOutcome:
        """Make the requested split the active one, once its workers are ready for it.

        Raises ConfigurationError and PointerConflictError before anything is changed, UnavailableError when Redis does
        not answer for too long, and InvalidPointerError for a stored value that is no timeline.
        """
        timeline, roster = self._look_around(request)
        check_start(request, timeline, roster, self._clock.now_ms())
        if not has_workers(roster):
            return SwitchOutcome(SwitchResult.DONE, self._commit(request, timeline, roster), 0)
        if request.prepare_timeout_seconds <= 0:
            return self._confirm(self._commit(request, timeline, roster), frozenset(), request.author)
        named = tuple(sorted(request.split))
        candidate = Candidate(self._make_id(), named, request.author.by, self._clock.now_ms())
        try:
            self._workers.propose_candidate(self._model, candidate)
            verdict = self._prepare(request, candidate)
            if verdict.decision is Decision.STOP:
                return _outcome(SwitchResult.REFUSED, None, verdict)
            needs_warm = frozenset(named) if request.quorum.is_all else frozenset()
            return self._confirm(self._commit(request, timeline, roster), needs_warm, request.author)
        finally:
            # Without an answer it expires by itself.
            with suppress(UnavailableError, PointerConflictError):
                self._workers.withdraw_candidate(self._model, candidate.id)

    def roll_back(self, to: str | None, expected_epoch: int | None = None, author: Author = NOBODY) -> SwitchOutcome:
        """Make `to`, or else the last split that differs, the active one from now on. Nothing is prepared.

        Raises as :meth:`activate`, and VersionNotFoundError when there is nothing to go back to.
        """
        now_ms = self._clock.now_ms()
        entry = self._move(
            lambda present: present.with_rollback(
                to, present.epoch if expected_epoch is None else expected_epoch, now_ms, author
            )
        )
        return self._confirm(entry, frozenset(entry.split), author)

    def restore(self, split: Mapping[str, int], expected_epoch: int, author: Author = NOBODY) -> SwitchOutcome:
        """Make `split` the active one from now on, if the epoch still is `expected_epoch`. Nothing is prepared.

        An armed switch is ended by it. Raises as :meth:`activate`.
        """
        now_ms = self._clock.now_ms()
        entry = self._move(lambda present: present.with_activation(split, expected_epoch, now_ms, author=author))
        return self._confirm(entry, frozenset(entry.split), author)

    def _look_around(self, request: SwitchRequest) -> tuple[Timeline, Roster]:
        """Workers first: then the timeline cannot be older than what they report."""
        roster = self._workers.read_workers(self._model)
        timeline = self._read_timeline(request)
        if not has_workers(roster):
            # A Redis that has just come back empty, the timeline too, is told of them again.
            self._show(SwitchView("no worker has reported: looking once more"))
            self._clock.pause(1.5 * REPORT_EVERY_SECONDS)
            roster = self._workers.read_workers(self._model)
        return timeline, roster

    def _read_timeline(self, request: SwitchRequest) -> Timeline:
        try:
            return self._versions.read(self._model) or Timeline()
        except InvalidPointerError:
            if request.replaces_unsound:
                return Timeline()
            raise

    def _prepare(self, request: SwitchRequest, candidate: Candidate) -> Verdict:
        named = ", ".join(candidate.versions)
        started = renewed = answered = self._clock.monotonic()
        roster, seen = Roster(), set[str]()
        while True:
            now = self._clock.monotonic()
            try:
                if now - renewed >= RENEW_EVERY_SECONDS:
                    if not self._workers.renew_candidate(self._model, candidate):
                        return Verdict(Decision.STOP, (), "another preparation has taken its place")
                    renewed = now
                roster, answered = self._workers.read_workers(self._model), now
            except (UnavailableError, PointerConflictError):
                if now - answered >= PATIENCE_SECONDS:
                    raise
            left = started + request.prepare_timeout_seconds - now
            verdict = judge_preparation(roster, seen, candidate.id, request.quorum, left)
            seen |= {row.worker for row in verdict.rows}
            self._show(SwitchView(f"preparing {named}", max(0.0, left), verdict.rows))
            if verdict.decision is not Decision.WAIT:
                return verdict
            self._clock.pause(LOOK_EVERY_SECONDS)

    def _commit(self, request: SwitchRequest, timeline: Timeline, roster: Roster) -> TimelineEntry:
        now_ms = self._clock.now_ms()
        instant = choose_instant(request, timeline, roster)
        check_lead(instant, roster, now_ms)
        expected = timeline.epoch if request.expected_epoch is None else request.expected_epoch
        return self._move(
            lambda present: present.with_activation(
                request.split,
                expected,
                now_ms,
                request.floor_epoch,
                effective_from_ms=None if instant is None else instant.resolve(now_ms),
                author=request.author,
            ),
            replace=request.replaces_unsound,
        )

    def _confirm(self, entry: TimelineEntry, needs_warm: Set[str], author: Author) -> SwitchOutcome:
        """Watch the workers take it up; an exact switch that one of them does not know in time is called off."""
        if entry.mode is SwitchMode.NOW:
            return self._confirm_now(entry, needs_warm)
        try:
            verdict = self._watch_arming(
                entry, needs_warm, lambda: count_ms_to_decide(entry.effective_from_ms, self._clock.now_ms())
            )
        except (KeyboardInterrupt, PipelineError) as error:
            self._call_off(entry, str(error) or "interrupted", author)
            raise
        if verdict.decision is Decision.GO:
            return _outcome(SwitchResult.DONE, entry, verdict)
        trouble = self._call_off(entry, verdict.reason, author)
        if trouble is None:
            return _outcome(SwitchResult.CALLED_OFF, entry, verdict)
        return SwitchOutcome(SwitchResult.UNSTOPPED, entry, _count_live(verdict), f"{verdict.reason}; {trouble}")

    def _confirm_now(self, entry: TimelineEntry, needs_warm: Set[str]) -> SwitchOutcome:
        until = self._clock.monotonic() + ADOPTION_SECONDS
        try:
            if not has_workers(self._workers.read_workers(self._model)):
                return SwitchOutcome(SwitchResult.DONE, entry, 0)
            verdict = self._watch_arming(entry, needs_warm, lambda: round(1000 * (until - self._clock.monotonic())))
        except PipelineError as error:
            # It is stored: that nobody can be asked about it does not undo it.
            return SwitchOutcome(SwitchResult.UNCONFIRMED, entry, 0, str(error))
        result = SwitchResult.DONE if verdict.decision is Decision.GO else SwitchResult.UNCONFIRMED
        return _outcome(result, entry, verdict)

    def _watch_arming(self, entry: TimelineEntry, needs_warm: Set[str], count_ms_left: Callable[[], int]) -> Verdict:
        roster, seen = Roster(), set[str]()
        while True:
            with suppress(UnavailableError):
                roster = self._workers.read_workers(self._model)
            ms_left = count_ms_left()
            verdict = judge_arming(roster, seen, entry.epoch, needs_warm, ms_left)
            seen |= {row.worker for row in verdict.rows}
            self._show(SwitchView(f"arming epoch {entry.epoch}", max(0, ms_left) / 1000, verdict.rows))
            if verdict.decision is not Decision.WAIT:
                return verdict
            self._clock.pause(LOOK_EVERY_SECONDS)

    def _call_off(self, entry: TimelineEntry, why: str, author: Author) -> str | None:
        """Take an armed switch back. Returns why that was not possible, None when it was."""
        now_ms, told = self._clock.now_ms(), Author(author.by, clean_text(f"called off: {why}", MAX_REASON_CHARS))
        try:
            self._move(lambda present: present.with_called_off(entry.epoch, now_ms, told))
        except (PointerConflictError, UnavailableError) as error:
            return str(error)
        return None

    def _move(self, change: Callable[[Timeline], Timeline], *, replace: bool = False) -> TimelineEntry:
        """Store a decision and return it. An answer that was lost on the way is not taken for a no."""
        made: list[TimelineEntry] = []

        def remember(present: Timeline) -> Timeline:
            moved = change(present)
            made.append(moved.entries[-1])
            return moved

        try:
            self._versions.move(self._model, remember, replace=replace)
        except (UnavailableError, PointerConflictError):
            if not made or not self._is_stored(made[-1]):
                raise
        return made[-1]

    def _is_stored(self, entry: TimelineEntry) -> bool:
        give_up_at = self._clock.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                timeline = self._versions.read(self._model)
                return timeline is not None and entry in timeline.entries
            except UnavailableError as error:
                if self._clock.monotonic() >= give_up_at:
                    raise UnavailableError(
                        f"it is not known whether epoch {entry.epoch} was stored; `headrace models history"
                        f" {self._model}` tells when Redis answers again ({error})"
                    ) from None
                self._clock.pause(LOOK_EVERY_SECONDS)


def _outcome(result: SwitchResult, entry: TimelineEntry | None, verdict: Verdict) -> SwitchOutcome:
    return SwitchOutcome(result, entry, _count_live(verdict), verdict.reason)


def _count_live(verdict: Verdict) -> int:
    return sum(row.state is not WorkerState.GONE for row in verdict.rows)
