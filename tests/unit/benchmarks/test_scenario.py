import pytest

from benchmarks.contestants.catalogue import CONTESTANTS
from benchmarks.options import read_options
from benchmarks.report.section import Section
from benchmarks.runner.arena import Run
from benchmarks.runner.processes import ContestantFailedError
from benchmarks.scenarios.scenario import Context
from benchmarks.workloads.specification import FRAMES


class FakeArena:
    def __init__(self, rates):
        self.rates = rates
        self.count = 0

    def measure(self, workload, contestant, count):
        self.count += 1
        rate = self.rates[contestant.name]
        if not rate:
            raise ContestantFailedError("no answer")
        return Run(rate)


def find_capacity(rates):
    context = Context(FakeArena(rates), read_options([], ["latency"], []), lambda text: None)
    section = Section("latency", "", ())
    return context.common_capacity(FRAMES, [CONTESTANTS[name] for name in rates], section), section


def test_the_common_capacity_is_the_lower_of_ours_and_the_best_peers():
    assert find_capacity({"headrace": 400.0, "mosec": 200.0, "bytewax-tuned": 300.0, "overlapped": 500.0})[0] == 300.0
    assert find_capacity({"headrace": 250.0, "mosec": 200.0, "bytewax-tuned": 300.0})[0] == 250.0


def test_without_peers_or_headrace_it_is_that_of_who_is_there():
    assert find_capacity({"headrace": 400.0, "overlapped": 500.0})[0] == 400.0
    assert find_capacity({"overlapped": 500.0})[0] == 500.0


def test_who_cannot_be_measured_is_named_and_not_considered():
    capacity, section = find_capacity({"headrace": 400.0, "mosec": 0.0})

    assert capacity == 400.0
    assert "mosec" in section.notes[0]


def test_nobody_measured_is_no_capacity():
    with pytest.raises(ContestantFailedError):
        find_capacity({"mosec": 0.0})


def test_a_capacity_is_measured_once():
    arena = FakeArena({"headrace": 400.0})
    context = Context(arena, read_options([], ["latency"], []), lambda text: None)

    for _ in range(3):
        assert context.capacity(FRAMES, CONTESTANTS["headrace"]) == 400.0
    assert arena.count == 3
