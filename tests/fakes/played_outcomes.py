"""Results and dead letters as workers would write them: each key is met by the version that the split names."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from model_store.timeline import TimelineEntry
from model_store.version_history import find_current
from schemas.errors import UnavailableError
from schemas.records import DeadLetter, Position, Result, Status, Timings
from tests.fakes.kafka_pair import dead_letter, result
from tests.fakes.simulated_workers import MODEL, SimulatedFleet

KEYS = [f"camera-{number}".encode() for number in range(2000)]


@dataclass(frozen=True)
class Behaviour:
    """How one version answers."""

    error_rate: float = 0.0
    expired_rate: float = 0.0
    latency_ms: float = 40.0
    quality: float = 0.8
    batch_size: int = 1


def play(
    entry: TimelineEntry, behaviours: Mapping[str, Behaviour], dice: random.Random, number: int
) -> Result | DeadLetter:
    """One outcome under an entry."""
    key = dice.choice(KEYS)
    version = entry.pick(key)
    behaviour, luck = behaviours.get(version, Behaviour()), dice.random()
    facts = {"key": key, "model": MODEL, "version": version, "epoch": entry.epoch, "source": Position("r", 0, number)}
    if luck < behaviour.error_rate:
        return dead_letter(f"r-{number}", **facts)
    is_expired = luck < behaviour.error_rate + behaviour.expired_rate
    body = {"confidence": behaviour.quality + dice.gauss(0, 0.1)}
    latency_ms = behaviour.latency_ms * dice.lognormvariate(0, 0.3)
    return result(
        f"r-{number}",
        status=Status.EXPIRED if is_expired else Status.OK,
        output=None if is_expired else msgspec.Raw(msgspec.json.encode(body)),
        timings=Timings(latency_ms / 2, latency_ms / 2, behaviour.batch_size),
        **facts,
    )


@dataclass
class PlayedOutcomes:
    """An outcome door over a simulated fleet: polling lets time pass, and the traffic of that time is answered."""

    fleet: SimulatedFleet
    behaviours: Mapping[str, Behaviour] = field(default_factory=dict)
    per_second: float = 2000.0
    outages: list[tuple[float, float]] = field(default_factory=list)
    """Spans without Kafka."""
    splits: bool = True
    """Whether the workers know splits, or give all to the heaviest version."""
    on_poll: Callable[[], None] = lambda: None
    seed: int = 7
    played: int = 0

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)
        self._owed = 0.0

    def poll(self, timeout_seconds: float) -> list[Result | DeadLetter]:
        self.on_poll()
        self.fleet.pass_time(timeout_seconds)
        timeline = self.fleet.versions_door.read(MODEL)
        entry = None if timeline is None else find_current(timeline, self.fleet.now_ms())
        if entry is None or self._is_down():
            return []
        self._owed += self.per_second * timeout_seconds
        outcomes = []
        while self._owed >= 1:
            self._owed -= 1
            self.played += 1
            outcome = play(entry, self.behaviours, self._dice, self.played)
            if not self.splits:
                outcome = msgspec.structs.replace(outcome, version=entry.heaviest)
            outcomes.append(outcome)
        return outcomes

    def check_reachable(self, timeout_seconds: float) -> None:
        if self._is_down():
            self.fleet.pass_time(timeout_seconds)
            raise UnavailableError("Kafka does not answer")

    def _is_down(self) -> bool:
        return any(begin <= self.fleet.now < end for begin, end in self.outages)
