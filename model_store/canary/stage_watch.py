"""Watches one stage of a canary: reads results, looks at the pointer, and asks the decider until there is an answer.

A thin driver around :mod:`model_store.canary.judgment`; doors and clock are passed in.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from model_store.canary.contract import CanaryResult, CanaryView, Ending, OutcomeDoor, Side
from model_store.canary.judgment import Judgment, Step, judge_silence, judge_stage
from model_store.canary.observation import is_as_split, observe
from model_store.canary.plan import CanaryPlan
from model_store.canary.tally import Tally
from model_store.switch_contract import SwitchClock, TimelineDoor
from model_store.timeline import TimelineEntry
from schemas.errors import UnavailableError
from schemas.records import DeadLetter, Result

LOOK_EVERY_SECONDS = 0.25
ASK_KAFKA_EVERY_SECONDS = 3.0
"""After so long without a result, or a part of the window, Kafka itself is asked whether it is there."""
ASKS_PER_WINDOW = 4
ASK_KAFKA_TIMEOUT_SECONDS = 1.0
_ENDINGS = {Step.HALT: CanaryResult.HALTED, Step.GIVE_UP: CanaryResult.STARVED}


@dataclass(frozen=True)
class StageDoors:
    """What a stage is watched through."""

    versions: TimelineDoor
    outcomes: OutcomeDoor
    clock: SwitchClock
    show: Callable[[CanaryView], None]


@dataclass
class Evidence:
    """What has come in one stage. Only results under its epoch count: older ones were made under another split."""

    model: str
    entry: TimelineEntry
    plan: CanaryPlan
    new: Tally = field(default_factory=Tally)
    old: Tally = field(default_factory=Tally)
    strays: int = 0

    def add(self, outcomes: Iterable[Result | DeadLetter]) -> None:
        """Take outcomes in, each for the version that made it."""
        for outcome in outcomes:
            if outcome.epoch != self.entry.epoch or outcome.model != self.model:
                continue
            if not is_as_split(outcome, self.entry):
                self.strays += 1
                continue
            seen = observe(outcome, self.plan.quality_path)
            if seen is not None:
                (self.new if outcome.version == self.plan.version else self.old).add(seen)


class StageWatch:
    """One stage, from its instant to a decision."""

    def __init__(self, model: str, plan: CanaryPlan, entry: TimelineEntry, doors: StageDoors) -> None:
        self._model = model
        self._plan = plan
        self._entry = entry
        self._doors = doors
        self._evidence = Evidence(model, entry, plan)
        self._ask_every_seconds = min(ASK_KAFKA_EVERY_SECONDS, plan.window_seconds / ASKS_PER_WINDOW)
        self._heard_redis = self._heard_kafka = self._asked_kafka = self._begins = 0.0

    def watch(self) -> Ending | None:
        """Return why the canary ends here, None when it takes the next stage.

        Raises InvalidPointerError for a stored value that is no timeline.
        """
        clock = self._doors.clock
        looks_at = self._heard_redis = self._heard_kafka = self._asked_kafka = clock.monotonic()
        # A stage that is armed begins at its instant.
        self._begins = looks_at + max(0, self._entry.effective_from_ms - clock.now_ms()) / 1000
        while True:
            self._take_in()
            now = clock.monotonic()
            if now < looks_at:
                continue
            looks_at = now + LOOK_EVERY_SECONDS
            ending = self._find_foreign_end(now)
            if ending is not None:
                return ending
            elapsed_seconds = max(0.0, now - self._begins)
            judgment = judge_stage(self._evidence.new, self._evidence.old, self._plan, elapsed_seconds)
            silent = self._name_silent(now)
            self._show(judgment, elapsed_seconds, silent)
            if judgment.step in _ENDINGS:
                return Ending(_ENDINGS[judgment.step], judgment.reason + self._describe_strays())
            # What came before somebody fell silent does not speak for now.
            if judgment.step is Step.GO_ON and not silent:
                return None

    def _take_in(self) -> None:
        """Read what has come; ask Kafka itself when nothing has for some time."""
        clock, outcomes = self._doors.clock, self._doors.outcomes
        try:
            seen = outcomes.poll(LOOK_EVERY_SECONDS)
        except UnavailableError:
            clock.pause(LOOK_EVERY_SECONDS)
            seen = ()
        if seen:
            self._evidence.add(seen)
            self._heard_kafka = clock.monotonic()
        if clock.monotonic() - max(self._heard_kafka, self._asked_kafka) < self._ask_every_seconds:
            return
        with suppress(UnavailableError):
            outcomes.check_reachable(ASK_KAFKA_TIMEOUT_SECONDS)
            self._heard_kafka = clock.monotonic()
        self._asked_kafka = clock.monotonic()

    def _find_foreign_end(self, now: float) -> Ending | None:
        """Look at the pointer; an ending when somebody decided otherwise, or was silent for too long."""
        with suppress(UnavailableError):
            timeline = self._doors.versions.read(self._model)
            self._heard_redis = now
            latest = None if timeline is None else timeline.latest
            if latest is None or latest.epoch < self._entry.epoch:
                return Ending(CanaryResult.OVERTAKEN, f"Redis no longer holds epoch {self._entry.epoch}")
            if latest != self._entry:
                who = latest.author.by or "somebody else"
                return Ending(CanaryResult.OVERTAKEN, f"{who} made epoch {latest.epoch}")
        silence = judge_silence(now - self._heard_redis, now - self._heard_kafka, self._plan)
        return Ending(CanaryResult.UNREACHABLE, silence) if silence else None

    def _name_silent(self, now: float) -> str:
        names = ["Redis"] if now > self._heard_redis else []
        # Between two questions nobody knows: only one that was not answered counts.
        names += ["Kafka"] if self._asked_kafka > self._heard_kafka else []
        return " and ".join(names)

    def _show(self, judgment: Judgment, elapsed_seconds: float, silent: str) -> None:
        share, evidence, plan = self._entry.split[self._plan.version], self._evidence, self._plan
        old = next(version for version in self._entry.split if version != plan.version)
        self._doors.show(
            CanaryView(
                plan.stages.index(share) + 1,
                len(plan.stages),
                elapsed_seconds,
                plan.window_seconds,
                Side.of(old, 100 - share, evidence.old),
                Side.of(plan.version, share, evidence.new),
                evidence.strays,
                judgment.step,
                f"no answer from {silent}; {judgment.reason}" if silent else judgment.reason,
            )
        )

    def _describe_strays(self) -> str:
        strays = self._evidence.strays
        return f"; {strays} results came from the other version than their key's" if strays else ""
