import pytest

from benchmarks.runner import watch as module
from benchmarks.runner.processes import ContestantFailedError
from benchmarks.runner.watch import watch


class FakeMessage:
    def __init__(self, request):
        self._request = request

    def error(self):
        return None

    def headers(self):
        return [("ce_id", self._request)]

    def value(self):
        return b"answer " + self._request


class FakeReader:
    def __init__(self, batches):
        self._batches = iter(batches)

    def consume(self, count, seconds):
        return [FakeMessage(request) for request in next(self._batches, [])]

    def close(self):
        pass


def play(monkeypatch, batches, count, check=lambda: None, timeout_seconds=10.0):
    """Each read takes a second."""
    seconds = iter(range(1000))
    monkeypatch.setattr(module, "open_reader", lambda bootstrap, topic: FakeReader(batches))
    monkeypatch.setattr(module.time, "monotonic", lambda: float(next(seconds)))
    return watch("", "topic", count, timeout_seconds, check)


def numbers(*values):
    return [str(value).encode() for value in values]


def test_the_clock_runs_from_a_fifth_of_the_answers_to_the_last(monkeypatch):
    seen = play(monkeypatch, [numbers(0), numbers(1), numbers(*range(2, 6)), numbers(*range(6, 10))], 10)

    assert seen.per_second == 8 / 2
    assert seen.answers[9] == b"answer 9"
    assert seen.doubled == 0


def test_a_doubled_answer_is_counted_and_stands_for_no_other(monkeypatch):
    seen = play(monkeypatch, [numbers(0, 1, 2, 2), numbers(), numbers(3)], 4)

    assert seen.doubled == 1
    assert sorted(seen.answers) == [0, 1, 2, 3]


def test_missing_answers_are_a_failure(monkeypatch):
    with pytest.raises(ContestantFailedError, match="2 of 4"):
        play(monkeypatch, [numbers(0, 1)], 4)


def test_an_answer_without_a_number_is_none(monkeypatch):
    with pytest.raises(ContestantFailedError, match="1 of 2"):
        play(monkeypatch, [[b"0", b"headrace-0-1", b""]], 2)


def test_a_contestant_that_has_ended_ends_the_run(monkeypatch):
    def check():
        raise ContestantFailedError("ended with code 1")

    with pytest.raises(ContestantFailedError, match="code 1"):
        play(monkeypatch, [], 4, check)
