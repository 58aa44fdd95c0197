"""Which version serves, when Redis answers and when it does not."""

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from model_store.timeline import Timeline
from schemas.errors import InvalidPointerError, StartUpTimeoutError, UnavailableError
from schemas.settings import ModelSettings, Settings, WorkerSettings
from stream_workers.batching.work import ServedVersion
from stream_workers.version_following import LastKnownTimeline, VersionFollower


class FakeLive:
    def __init__(self, *answers: Timeline | Exception | None) -> None:
        self.answers = list(answers)

    def read(self, model: str) -> Timeline | None:
        assert model == "m"
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def timeline(*versions: str) -> Timeline:
    made = Timeline()
    for epoch, version in enumerate(versions):
        made = made.with_activation(version, epoch, now_ms=1000 + epoch)
    return made


class Rig:
    def __init__(self, folder: Path, live: FakeLive | None, version: str | None = None) -> None:
        self.now = 0.0
        self.waits: list[str] = []
        settings = Settings(
            model=ModelSettings(name="m", version=version), worker=WorkerSettings(start_timeout_seconds=5)
        )
        self.last_known = LastKnownTimeline(folder / "m.timeline")
        self.follower = VersionFollower(
            settings,
            (lambda: live) if live is not None else None,
            self.last_known,
            clock=lambda: self.now,
            pause=self._pause,
        )

    def _pause(self, seconds: float) -> None:
        self.now += seconds

    def first(self) -> ServedVersion | None:
        return self.follower.await_first(lambda: False, self.waits.append)


def test_a_fixed_version_needs_no_redis(tmp_path: Path) -> None:
    rig = Rig(tmp_path, None, version="v7")
    assert rig.first() == ServedVersion("m", "v7", 0)
    assert rig.follower.stale_seconds() == 0


def test_the_active_version_is_read_and_remembered(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeLive(timeline("v1", "v2")))
    assert rig.first() == ServedVersion("m", "v2", 2)
    assert rig.last_known.load() == timeline("v1", "v2")


@pytest.mark.parametrize("trouble", [UnavailableError("down"), InvalidPointerError("garbage")])
def test_the_last_known_version_serves_when_redis_gives_no_good_answer(tmp_path: Path, trouble: Exception) -> None:
    Rig(tmp_path, FakeLive(timeline("v1"))).first()
    assert Rig(tmp_path, FakeLive(trouble)).first() == ServedVersion("m", "v1", 1)


def test_without_any_version_each_try_says_why_until_the_limit(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeLive(None))
    with pytest.raises(StartUpTimeoutError, match="headrace models activate m"):
        rig.first()
    assert len(rig.waits) == 5


def test_a_version_that_becomes_active_while_waiting_is_taken(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeLive(UnavailableError("starting"), None, timeline("v1")))
    assert rig.first() == ServedVersion("m", "v1", 1)
    assert len(rig.waits) == 2


def test_being_told_to_stop_ends_the_wait(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeLive(None))
    assert rig.follower.await_first(lambda: True, rig.waits.append) is None


def test_staleness_grows_while_redis_is_down(tmp_path: Path) -> None:
    rig = Rig(tmp_path, FakeLive(timeline("v1"), UnavailableError("down")))
    rig.first()
    rig.now += 30
    rig.follower._look()
    assert rig.follower.stale_seconds() == 30
    assert rig.follower.epoch == 1


def test_a_damaged_file_is_no_version(tmp_path: Path) -> None:
    (tmp_path / "m.timeline").write_bytes(b"\xff\x00")
    assert LastKnownTimeline(tmp_path / "m.timeline").load() is None


def test_trouble_while_following_is_said_once_and_ends_nothing(tmp_path: Path) -> None:
    live = FakeLive(timeline("v1"))
    rig = Rig(tmp_path, live)
    rig.first()
    live.answers = [RuntimeError("odd"), UnavailableError("down"), UnavailableError("down"), timeline("v1", "v2")]
    pauses = iter([None] * len(live.answers))
    # The loop has no other end.
    rig.follower._pause = lambda _: next(pauses)
    with capture_logs() as logs, pytest.raises(StopIteration):
        rig.follower._poll_for_ever()
    assert [(log["log_level"], log["reason"]) for log in logs] == [
        ("warning", "RuntimeError: odd"),
        ("warning", "down"),
        ("info", "down"),
    ]
    assert rig.follower.take_change() == ServedVersion("m", "v2", 2)


def test_a_timeline_that_cannot_be_saved_leaves_one_file_at_most(tmp_path: Path) -> None:
    target = tmp_path / "taken"
    target.mkdir()
    for versions in (["v1"], ["v1", "v2"], ["v1", "v2", "v3"]):
        LastKnownTimeline(target).save(timeline(*versions))
    assert len(list(tmp_path.iterdir())) == 2
