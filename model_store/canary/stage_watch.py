"""Watches one stage of a canary: reads results, looks at the pointer, and asks the decider until there is an answer.

A thin driver around :mod:`model_store.canary.judgment`; doors and clock are passed in.
"""

from collections.abc import Callable, Iterable
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
"""After so long without a result Kafka itself is asked whether it is there."""
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

    def watch(self) -> Ending | None:
        """Return why the canary ends here, None when it takes the next stage.

        Raises InvalidPointerError for a stored value that is no timeline.
        """
        clock = self._doors.clock
        heard_redis = heard_kafka = asked_kafka = clock.monotonic()
        # A stage that is armed begins at its instant.
        begins = heard_redis + max(0, self._entry.effective_from_ms - clock.now_ms()) / 1000
        looks_at = heard_redis
        while True:
            if self._take_in():
                heard_kafka = clock.monotonic()
            now = clock.monotonic()
            if now - max(heard_kafka, asked_kafka) >= ASK_KAFKA_EVERY_SECONDS:
                if self._is_kafka_there():
                    heard_kafka = clock.monotonic()
                asked_kafka = now = clock.monotonic()
            if now < looks_at:
                continue
            looks_at = now + LOOK_EVERY_SECONDS
            moved = self._find_moved()
            if moved:
                return Ending(CanaryResult.OVERTAKEN, moved)
            is_redis_there = moved is not None
            heard_redis = now if is_redis_there else heard_redis
            silence = judge_silence(now - heard_redis, now - heard_kafka, self._plan)
            if silence:
                return Ending(CanaryResult.UNREACHABLE, silence)
            judgment = judge_stage(self._evidence.new, self._evidence.old, self._plan, max(0.0, now - begins))
            self._show(judgment, max(0.0, now - begins), is_redis_there=is_redis_there)
            if judgment.step in _ENDINGS:
                return Ending(_ENDINGS[judgment.step], judgment.reason + self._describe_strays())
            if judgment.step is Step.GO_ON and is_redis_there:
                return None

    def _take_in(self) -> bool:
        """Whether anything came."""
        try:
            outcomes = self._doors.outcomes.poll(LOOK_EVERY_SECONDS)
        except UnavailableError:
            self._doors.clock.pause(LOOK_EVERY_SECONDS)
            return False
        self._evidence.add(outcomes)
        return bool(outcomes)

    def _is_kafka_there(self) -> bool:
        try:
            self._doors.outcomes.check_reachable(ASK_KAFKA_TIMEOUT_SECONDS)
        except UnavailableError:
            return False
        return True

    def _find_moved(self) -> str | None:
        """Say who decided otherwise, nothing when nobody did; None when Redis does not answer."""
        try:
            timeline = self._doors.versions.read(self._model)
        except UnavailableError:
            return None
        latest = None if timeline is None else timeline.latest
        if latest == self._entry:
            return ""
        if latest is None or latest.epoch <= self._entry.epoch:
            return f"Redis no longer holds epoch {self._entry.epoch}"
        return f"{latest.author.by or 'somebody else'} made epoch {latest.epoch}"

    def _show(self, judgment: Judgment, elapsed_seconds: float, *, is_redis_there: bool) -> None:
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
                judgment.reason if is_redis_there else f"Redis does not answer; {judgment.reason}",
            )
        )

    def _describe_strays(self) -> str:
        strays = self._evidence.strays
        return f"; {strays} results came from the other version than their key's" if strays else ""
