"""Takes a version up by stages: prepared once, an exact split per stage, and on any trouble back to the one before.

A thin driver: :mod:`model_store.canary.judgment` decides, :class:`~model_store.model_switch.ModelSwitch` switches.
"""

from collections.abc import Callable

from model_store.canary.contract import CanaryOutcome, CanaryResult, CanaryView, Ending, OutcomeDoor
from model_store.canary.own_decisions import OwnDecisions
from model_store.canary.plan import CanaryPlan
from model_store.canary.stage_watch import StageDoors, StageWatch
from model_store.model_switch import ModelSwitch
from model_store.switch_contract import SwitchClock, SwitchResult, SwitchView, TimelineDoor, WorkersDoor
from model_store.switch_request import SwitchRequest
from model_store.timeline import MAX_REASON_CHARS, Author, Timeline, TimelineEntry
from model_store.worker_reports import clean_text
from schemas.errors import PipelineError, PointerConflictError, UnavailableError

RETRY_EVERY_SECONDS = 0.25
PREPARE_TIMEOUT_SECONDS = 120.0
_ENTERED = frozenset({SwitchResult.DONE, SwitchResult.UNCONFIRMED})


class Canary:
    """Runs one canary of one model. `show` is told what goes on."""

    def __init__(
        self,
        model: str,
        versions: TimelineDoor,
        workers: WorkersDoor,
        outcomes: OutcomeDoor,
        clock: SwitchClock,
        show: Callable[[SwitchView | CanaryView], None],
    ) -> None:
        self._model = model
        self._versions = OwnDecisions(versions)
        self._outcomes = outcomes
        self._clock = clock
        self._show = show
        self._switch = ModelSwitch(model, self._versions, workers, clock, show)
        self._share = 0
        self._began_at_epoch = 0

    def run(self, plan: CanaryPlan, author: Author) -> CanaryOutcome:
        """Run all stages, or go back to the version before as soon as one of them fails.

        `outcomes` has to stand at the end of its topics. Whatever ends it, Ctrl-C included, the version before is
        active again when this returns, unless somebody else has decided otherwise meanwhile. While Redis does not
        answer it goes on trying; another Ctrl-C then ends that with KeyboardInterrupt. Raises what
        :meth:`ModelSwitch.activate` raises as long as nothing has been changed.
        """
        timeline = self._versions.read(self._model) or Timeline()
        old = plan.find_old(timeline, self._clock.now_ms())
        self._began_at_epoch = timeline.epoch
        try:
            climbed = self._climb(plan, old, timeline.epoch, author)
        except (KeyboardInterrupt, PipelineError) as error:
            if self._versions.is_empty:
                raise
            climbed = _ending_of(error)
        except Exception as error:
            # A fault of ours must not leave the stage standing either.
            if not self._versions.is_empty:
                self._go_back(Ending(CanaryResult.INTERRUPTED, type(error).__name__), old, author)
            raise
        if not isinstance(climbed, Ending):
            return climbed
        if climbed.result is CanaryResult.OVERTAKEN:
            return CanaryOutcome(climbed, self._share, None)
        try:
            return self._go_back(climbed, old, author)
        except KeyboardInterrupt:
            if climbed.result is CanaryResult.INTERRUPTED:
                raise
            # The first Ctrl-C means the canary, and must not keep it from going back.
            return self._go_back(climbed, old, author)

    def _climb(self, plan: CanaryPlan, old: str, epoch: int, author: Author) -> CanaryOutcome | Ending:
        doors = StageDoors(self._versions, self._outcomes, self._clock, self._show)
        for share in plan.stages:
            self._share = share
            entered = self._enter(plan, old, epoch, author)
            if isinstance(entered, Ending):
                return entered
            if share == 100:
                return CanaryOutcome(Ending(CanaryResult.PROMOTED), share, entered, SwitchResult.DONE)
            ending = StageWatch(self._model, plan, entered, doors).watch()
            if ending is not None:
                return ending
            epoch = entered.epoch
        raise AssertionError("the last stage is 100 percent")  # pragma: no cover - CanaryPlan refuses others

    def _enter(self, plan: CanaryPlan, old: str, epoch: int, author: Author) -> TimelineEntry | Ending:
        """Switch to the present stage; workers prepare for the first and keep both versions loaded from then on."""
        is_first = self._share == plan.stages[0]
        outcome = self._switch.activate(
            SwitchRequest(
                plan.split_at(self._share, old),
                author=_sign(author, f"canary {plan.version} at {self._share}%", author.reason),
                prepare_timeout_seconds=PREPARE_TIMEOUT_SECONDS if is_first else 0.0,
                expected_epoch=epoch,
            )
        )
        if outcome.result in _ENTERED and outcome.entry is not None:
            return outcome.entry
        return Ending(CanaryResult.REFUSED, outcome.reason)

    def _go_back(self, ending: Ending, old: str, author: Author) -> CanaryOutcome:
        """Make the version before the active one at once, as soon as Redis answers."""
        told = _sign(author, f"canary {ending.result.value} at {self._share}%", ending.reason)
        while True:
            try:
                timeline = self._versions.read(self._model)
                latest = None if timeline is None else timeline.latest
                if latest is None or not self._versions.is_own(latest):
                    return self._leave(ending, latest)
                if dict(latest.split) == {old: 1}:
                    return CanaryOutcome(ending, self._share, latest)
                back = self._switch.restore({old: 1}, latest.epoch, told)
                return CanaryOutcome(ending, self._share, back.entry, back.result)
            except PointerConflictError:
                continue
            except UnavailableError as error:
                self._show(SwitchView(f"going back to {old} as soon as Redis answers ({error})"))
                self._clock.pause(RETRY_EVERY_SECONDS)

    def _leave(self, ending: Ending, latest: TimelineEntry | None) -> CanaryOutcome:
        """Nothing was stored, or somebody else's decision stands."""
        if latest is not None and latest.epoch == self._began_at_epoch:
            return CanaryOutcome(ending, self._share, None)
        if latest is None:
            reason = f"{ending.reason}; Redis no longer holds a decision"
        else:
            reason = f"{ending.reason}; {latest.author.by or 'somebody else'} made epoch {latest.epoch}"
        return CanaryOutcome(Ending(CanaryResult.OVERTAKEN, reason), self._share, None)


def _ending_of(error: KeyboardInterrupt | PipelineError) -> Ending:
    if isinstance(error, KeyboardInterrupt):
        return Ending(CanaryResult.INTERRUPTED, "Ctrl-C")
    if isinstance(error, UnavailableError):
        return Ending(CanaryResult.UNREACHABLE, str(error))
    return Ending(CanaryResult.REFUSED, str(error))


def _sign(author: Author, what: str, why: str) -> Author:
    return Author(author.by, clean_text(f"{what}: {why}" if why else what, MAX_REASON_CHARS))
