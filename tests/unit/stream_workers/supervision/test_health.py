from stream_workers.links.messages import Status
from stream_workers.supervision.health import STALE_SECONDS, SlotHealth, find_obstacles, render_metrics

METRICS = "# HELP a A.\n# TYPE a gauge\na 1.0\n"
READY = Status(True, [], METRICS)


def slot(status: Status | None = READY, *, heard_at: float = 100.0, models: int = 1) -> SlotHealth:
    return SlotHealth("w-0", status, heard_at, models, member_restarts=2, model_restarts=0, metrics=METRICS)


def test_a_worker_whose_members_are_ready_is_ready() -> None:
    assert find_obstacles([slot()], 100.5) == []


def test_every_obstacle_is_named_with_its_slot() -> None:
    assert find_obstacles([], 0.0) == ["starting"]
    assert find_obstacles([slot(models=0)], 100.5) == ["w-0: no model process is loaded"]
    assert find_obstacles([slot(None)], 100.5) == ["w-0: the member has not reported yet"]
    assert find_obstacles([slot(Status(False, ["fenced", "tired"], ""))], 100.5) == ["w-0: fenced", "w-0: tired"]
    assert find_obstacles([slot(Status(False, [], ""))], 100.5) == ["w-0: the member is not ready"]


def test_a_silent_member_is_an_obstacle_in_less_than_five_seconds() -> None:
    assert STALE_SECONDS < 5
    assert find_obstacles([slot()], 104.9) == ["w-0: the member has been silent for 4.9 s"]


def test_metrics_hold_the_members_own_and_the_supervisors() -> None:
    text = render_metrics([slot()], 100.5)
    assert 'a{slot="w-0"} 1.0' in text
    assert 'headrace_restarts_total{slot="w-0",role="member"} 2.0' in text
    assert "headrace_ready 1.0" in text
