"""Workers of a model that follow candidates and timelines as real ones do, in time that passes when somebody waits."""

from collections.abc import Callable
from dataclasses import dataclass, field

from model_store.switch_contract import SwitchClock
from model_store.worker_reports import WorkerReport
from schemas.errors import UnavailableError
from tests.fakes.fake_live_versions import FakeLiveVersions
from tests.fakes.fake_live_workers import FakeLiveWorkers

MODEL = "m"
START_MS = 1_000_000
REPORT_EVERY = 1.0


@dataclass
class SimulatedWorker:
    """One worker; times in seconds since the start."""

    worker: str
    load_seconds: float = 0.2
    refuses: str = ""
    hears_after: float = 0.0
    """How long a change of the timeline takes to reach it."""
    lives_from: float = 0.0
    lives_until: float = 1e9
    leaves: bool = False
    """Whether it says so when it ends, or is killed."""
    warm: set[str] = field(default_factory=set)
    epoch: int = 0
    _candidate: str | None = None
    _loading_since: float = 0.0
    _reported: tuple[float, WorkerReport | None] = (-1e9, None)

    def lives(self, now: float) -> bool:
        return self.lives_from <= now < self.lives_until

    def step(self, fleet: "SimulatedFleet", now: float) -> None:
        if not self.lives(now):
            if self.leaves and now >= self.lives_until:
                fleet.workers_door.withdraw_worker(MODEL, self.worker)
            return
        timeline = fleet.versions_door.read(MODEL)
        if timeline is not None and now >= fleet.changed_at + self.hears_after:
            self.epoch = max(self.epoch, timeline.epoch)
        report = WorkerReport(self.worker, 0, "host", 1, self.epoch, warm=tuple(sorted(self.warm)), at_ms=0)
        report = self._take_candidate(fleet, report, now)
        last_at, last = self._reported
        if report != last or now - last_at >= REPORT_EVERY:
            fleet.workers_door.report_worker(MODEL, report)
            self._reported = (now, report)

    def _take_candidate(self, fleet: "SimulatedFleet", report: WorkerReport, now: float) -> WorkerReport:
        candidate = fleet.workers_door.read_candidate(MODEL)
        if candidate is None:
            self._candidate = None
            return report
        if candidate.id != self._candidate:
            self._candidate, self._loading_since = candidate.id, now
        if now - self._loading_since < self.load_seconds:
            return WorkerReport(**{**vars(report), "preparing": candidate.id})
        if self.refuses:
            return report.refusing(candidate.id, self.refuses)
        self.warm |= set(candidate.versions)
        return WorkerReport(**{**vars(report), "warm": tuple(sorted(self.warm)), "ready": candidate.id})


class SimulatedFleet:
    """Workers, the two doors and the clock. `at` runs something once at a time; `outages` are spans without Redis."""

    def __init__(self, *workers: SimulatedWorker) -> None:
        self.workers = list(workers)
        self.versions_door = FakeLiveVersions()
        self.workers_door = FakeLiveWorkers()
        self.outages: list[tuple[float, float]] = []
        self.at: list[tuple[float, Callable[[], None]]] = []
        self.now = 0.0
        self.changed_at = 0.0
        self._stored = b""
        self.clock = SwitchClock(self.now_ms, lambda: self.now, self.pass_time)

    def now_ms(self) -> int:
        return START_MS + round(self.now * 1000)

    def pass_time(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + 0.025)
            self.workers_door.now = self.now
            self._step()

    def is_down(self) -> bool:
        return any(begin <= self.now < end for begin, end in self.outages)

    def _step(self) -> None:
        for when, action in [item for item in self.at if item[0] <= self.now]:
            self.at.remove((when, action))
            action()
        stored = self.versions_door.values.get(MODEL, b"")
        if stored != self._stored:
            self._stored, self.changed_at = stored, self.now
        if not self.is_down():
            for worker in self.workers:
                worker.step(self, self.now)


class Interruptible:
    """A door that does not answer during the fleet's outages."""

    def __init__(self, door: object, fleet: SimulatedFleet) -> None:
        self._door = door
        self._fleet = fleet

    def __getattr__(self, name: str) -> object:
        if self._fleet.is_down():
            raise UnavailableError("Redis: ConnectionError")
        return getattr(self._door, name)
