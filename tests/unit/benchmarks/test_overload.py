import pytest

from benchmarks.scenarios.overload import CALM, find_recovery, weigh

ALL_SECONDS = 20
PER_SECOND = 10


def arrivals():
    return {f"{number}": number / PER_SECOND for number in range(ALL_SECONDS * PER_SECOND)}


def test_a_worker_that_keeps_its_pace_was_never_late():
    due = arrivals()
    answered = {request: at + 0.05 for request, at in due.items()}

    found = weigh(due, answered, set())

    assert found.recovery_seconds == 0
    assert found.unanswered == 0
    assert found.during == pytest.approx(PER_SECOND, rel=0.1)
    assert found.before_p99_ms == pytest.approx(50)


def test_recovery_ends_with_the_last_late_half_second():
    due = arrivals()
    answered = {request: at + (0.9 if 12 <= at < 14 else 0.05) for request, at in due.items()}

    assert find_recovery(due, answered, normal_seconds=0.1) == 2.0


def test_a_worker_that_stays_late_has_not_recovered():
    due = arrivals()
    answered = {request: at + (0.9 if at >= 12 else 0.05) for request, at in due.items()}

    assert find_recovery(due, answered, normal_seconds=0.1) is None


def test_silence_after_the_overload_is_no_recovery():
    due = arrivals()
    answered = {request: at + 0.05 for request, at in due.items() if at < 12}

    assert find_recovery(due, answered, normal_seconds=0.1) is None


def test_an_expiry_is_no_goodput():
    due = arrivals()
    answered = {request: at + 0.05 for request, at in due.items()}

    found = weigh(due, answered, set(due))

    assert found.during == 0
    assert found.expired == len(due)


def test_the_calm_load_can_be_held():
    assert 0 < CALM < 1
