"""Which decisions a member knows, when Redis answers and when it does not, and what it says about itself."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from model_store.shadow import Shadow
from model_store.timeline import CALL_OFF_MARGIN_MS, Timeline
from model_store.worker_reports import REPORT_EVERY_SECONDS, Candidate, Orders, WorkerReport
from schemas.errors import InvalidPointerError, StartUpTimeoutError, UnavailableError
from schemas.settings import ModelSettings, Settings, WorkerSettings
from stream_workers.control_door import LONGEST_CALL_SECONDS
from stream_workers.last_known_timeline import LastKnownTimeline
from stream_workers.record_versions import FRESH_SECONDS
from stream_workers.version_following import SLICE_SECONDS, VersionFollower

REPORT = WorkerReport(worker="g.w-0", slot=0, host="h", pid=1, epoch=1)
CANDIDATE = Candidate("0123456789abcdef", ("v2",), "me@here", 5)


class FakeHints:
    def __init__(self, door: "FakeDoor") -> None:
        self._door = door
        self.closed = False

    def wait(self, timeout_seconds: float) -> bool:
        self._door.rig.now += timeout_seconds
        if self._door.down:
            raise UnavailableError("down")
        hinted, self._door.hinted = self._door.hinted, False
        return hinted

    def close(self) -> None:
        self.closed = True


class FakeDoor:
    """Redis: `timeline` is what a read finds, or the error that it meets."""

    def __init__(self, timeline: Timeline | Exception | None) -> None:
        self.timeline = timeline
        self.candidate: Candidate | Exception | None = None
        self.shadow: Shadow | None = None
        self.reports: list[WorkerReport] = []
        self.hinted = self.down = False
        self.reads = 0
        self.rig: Rig

    def read_timeline(self) -> Timeline | None:
        self.reads += 1
        if isinstance(self.timeline, Exception):
            raise self.timeline
        return self.timeline

    def read_orders(self) -> Orders:
        if isinstance(self.candidate, Exception):
            raise self.candidate
        return Orders(self.candidate, self.shadow)

    def report(self, report: WorkerReport) -> None:
        self.reports.append(report)

    def withdraw(self, worker: str) -> None:
        self.reports = []

    def listen(self) -> FakeHints:
        if self.down:
            raise UnavailableError("down")
        return FakeHints(self)


def timeline(*versions: str) -> Timeline:
    made = Timeline()
    for epoch, version in enumerate(versions):
        made = made.with_activation(version, epoch, now_ms=1000 + epoch)
    return made


class Rig:
    def __init__(self, folder: Path, door: FakeDoor) -> None:
        self.now = 0.0
        self.waits: list[str] = []
        self.door = door
        door.rig = self
        settings = Settings(model=ModelSettings(name="m"), worker=WorkerSettings(start_timeout_seconds=5))
        self.last_known = LastKnownTimeline(folder / "m.timeline")
        self.follower = VersionFollower(
            settings,
            lambda: door,
            self.last_known,
            clock=lambda: self.now,
            wall_clock=lambda: 1000.0 + self.now,
            pause=self._pause,
        )

    def _pause(self, seconds: float) -> None:
        self.now += seconds

    def begin(self, *, wait: bool = True) -> Timeline | None:
        return self.follower.begin(lambda: False, self.waits.append, wait=wait)

    def turn(self, times: int = 1) -> list[str | None]:
        return [self.follower._turn() for _ in range(times)]


def test_the_timeline_is_read_and_remembered(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeDoor(timeline("v1", "v2")))
    assert rig.begin() == timeline("v1", "v2")
    assert rig.follower.take_timeline() == timeline("v1", "v2")
    assert rig.follower.take_timeline() is None
    assert rig.last_known.load() == timeline("v1", "v2")


@pytest.mark.parametrize("trouble", [UnavailableError("down"), InvalidPointerError("garbage")])
def test_the_last_known_timeline_serves_when_redis_gives_no_good_answer(tmp_path: Path, trouble: Exception) -> None:
    Rig(tmp_path, FakeDoor(timeline("v1"))).begin()
    rig = Rig(tmp_path, FakeDoor(trouble))
    assert rig.begin() == timeline("v1")
    assert rig.follower.attempt.as_of == 0, "a failed look is one all the same"


def test_a_member_that_replaces_another_begins_with_the_last_known_timeline_and_has_not_looked(tmp_path: Path) -> None:
    Rig(tmp_path, FakeDoor(timeline("v1"))).begin()
    rig = Rig(tmp_path, FakeDoor(timeline("v1", "v2")))
    assert rig.begin(wait=False) == timeline("v1")
    assert rig.door.reads == 0
    assert rig.follower.attempt.as_of == float("-inf")
    rig.turn()
    assert rig.follower.take_timeline() == timeline("v1", "v2")


def test_without_any_version_each_try_says_why_until_the_limit(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeDoor(None))
    with pytest.raises(StartUpTimeoutError, match="headrace models activate m"):
        rig.begin()
    assert len(rig.waits) >= 5


def test_being_told_to_stop_ends_the_wait(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeDoor(None))
    assert rig.follower.begin(lambda: True, rig.waits.append, wait=True) is None


def test_a_hint_makes_the_next_look_come_at_once(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeDoor(timeline("v1")))
    rig.begin()
    rig.turn(3)
    reads = rig.door.reads
    rig.door.timeline, rig.door.hinted = timeline("v1", "v2"), True
    rig.turn()
    assert rig.door.reads == reads + 1
    assert rig.follower.take_timeline() == timeline("v1", "v2")


def test_without_hints_the_regular_look_finds_the_change(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeDoor(timeline("v1")))
    rig.begin()
    rig.turn(3)
    rig.follower.take_timeline()
    rig.door.timeline, began = timeline("v1", "v2"), rig.now
    while rig.follower.take_timeline() is None:
        rig.turn()
    assert rig.now - began <= Settings().redis.poll_seconds + SLICE_SECONDS


def test_an_attempt_ends_often_enough_while_redis_is_down(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeDoor(timeline("v1")))
    rig.begin()
    rig.turn(3)
    rig.door.timeline, rig.door.down = UnavailableError("down"), True
    for _ in range(40):
        rig.turn()
        assert rig.now - rig.follower.attempt.as_of < FRESH_SECONDS - 2 * LONGEST_CALL_SECONDS, "a try and one again"
    assert rig.follower.stale_seconds() > 2
    assert rig.follower.counts.unavailable > 5


def test_an_answer_is_as_old_as_its_question_however_late_it_is_taken_note_of(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeDoor(timeline("v1")))
    rig.begin()
    asked_at = rig.now
    read = rig.door.read_timeline

    def stopped_after_the_answer() -> Timeline | None:
        found = read()
        rig.now += 60
        return found

    rig.door.read_timeline = stopped_after_the_answer  # type: ignore[method-assign]
    assert rig.follower._look() is None
    assert rig.follower.attempt.as_of == asked_at


def test_an_armed_switch_is_looked_at_once_more_when_it_can_be_called_off_no_more(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeDoor(timeline("v1")))
    rig.begin()
    instant_ms = int((1000.0 + rig.now) * 1000) + 2000
    rig.door.timeline = timeline("v1").with_activation("v2", 1, 0, effective_from_ms=instant_ms)
    while (1000.0 + rig.now) * 1000 < instant_ms:
        rig.turn()
    assert rig.follower.attempt.began_ms >= instant_ms - CALL_OFF_MARGIN_MS


def test_a_report_is_made_when_it_differs_and_again_every_second(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeDoor(timeline("v1")))
    rig.begin()
    rig.follower.note_report(REPORT)
    rig.turn(3)
    assert [report.epoch for report in rig.door.reports] == [1]
    rig.follower.note_report(REPORT.refusing(CANDIDATE.id, "no"))
    rig.turn()
    assert len(rig.door.reports) == 2
    rig.turn(int(REPORT_EVERY_SECONDS / SLICE_SECONDS) + 1)
    assert len(rig.door.reports) == 3


def test_a_candidate_is_seen_and_kept_while_redis_is_down(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeDoor(timeline("v1")))
    rig.begin()
    assert not rig.follower.has_looked
    rig.door.candidate = CANDIDATE
    rig.turn()
    assert rig.follower.has_looked
    assert rig.follower.candidate == CANDIDATE
    rig.door.candidate, rig.door.hinted = UnavailableError("down"), True
    rig.turn(3)
    assert rig.follower.candidate == CANDIDATE
    rig.door.candidate, rig.door.hinted = None, True
    rig.turn(9)
    assert rig.follower.candidate is None


def test_a_shadow_is_seen_with_the_same_look_and_kept_while_redis_is_down(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeDoor(timeline("v1")))
    rig.begin()
    assert rig.follower.shadow is None
    rig.door.shadow = Shadow("v2")
    rig.turn()
    assert rig.follower.shadow == Shadow("v2")
    rig.door.candidate, rig.door.hinted = UnavailableError("down"), True
    rig.turn(3)
    assert rig.follower.shadow == Shadow("v2")
    rig.door.candidate, rig.door.shadow, rig.door.hinted = None, None, True
    rig.turn(9)
    assert rig.follower.shadow is None


def test_a_damaged_file_is_no_timeline(tmp_path: Path) -> None:
    (tmp_path / "m.timeline").write_bytes(b"\xff\x00")
    assert LastKnownTimeline(tmp_path / "m.timeline").load() is None


def test_a_timeline_that_cannot_be_saved_leaves_one_file_at_most(tmp_path: Path) -> None:
    target = tmp_path / "taken"
    target.mkdir()
    for versions in (["v1"], ["v1", "v2"], ["v1", "v2", "v3"]):
        LastKnownTimeline(target).save(timeline(*versions))
    assert len(list(tmp_path.iterdir())) == 2


def test_trouble_while_following_is_said_once_and_ends_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeDoor(timeline("v1")))
    rig.begin()
    troubles = iter([RuntimeError("odd"), UnavailableError("down"), UnavailableError("down"), timeline("v1", "v2")])

    def next_turn() -> str | None:
        rig.door.timeline = next(troubles, rig.door.timeline)
        if rig.follower.counts.unavailable == 2 and isinstance(rig.door.timeline, Timeline):
            rig.follower._stopping.set()
        return rig.follower._look()

    rig.follower._turn = next_turn  # type: ignore[method-assign]
    with capture_logs() as logs:
        rig.follower._follow()
    assert [(log["log_level"], log["reason"]) for log in logs] == [
        ("warning", "RuntimeError: odd"),
        ("warning", "down"),
        ("info", "down"),
    ]
    rig.follower.take_timeline()
