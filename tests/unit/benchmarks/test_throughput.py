import pytest

from benchmarks.agreement import Agreement
from benchmarks.contestants.catalogue import CONTESTANTS
from benchmarks.options import read_options
from benchmarks.report.section import Section
from benchmarks.runner.arena import Run
from benchmarks.runner.processes import ContestantFailedError
from benchmarks.scenarios.scenario import Context
from benchmarks.scenarios.throughput import Throughput
from benchmarks.workloads.specification import SMALL

RATES = {"headrace": 900.0, "overlapped": 1000.0, "bytewax-tuned": 500.0, "quix": 50.0, "transport-alone": 2000.0}


class FakeArena:
    """Runs contestants at given rates; those of rate 0 fail."""

    def __init__(self, rates, doubled=0):
        self.rates = rates
        self.doubled = doubled
        self.ran = []

    def measure(self, workload, contestant, count):
        self.ran.append((contestant.name, count))
        rate = self.rates[contestant.name]
        if not rate:
            raise ContestantFailedError("no answer")
        return Run(rate, self.doubled, Agreement(10, 10, 0.0))

    def measure_limit(self, workload, contestant, seconds):
        return Run(self.rates[contestant.name])


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch):
    monkeypatch.setattr("benchmarks.scenarios.scenario.measure_idle_load", lambda: 0.0)


def run(arena, *arguments):
    options = read_options(["--contestants", *arena.rates, *arguments], ["small"], ["small"])
    return Throughput(SMALL).run(Context(arena, options, lambda text: None))


def rows(section: Section):
    return {row["contestant"]: row for row in section.rows}


def test_everybody_is_compared_with_the_best_peer_the_overlapped_loop_and_the_limit():
    found = rows(run(FakeArena({**RATES, "decode-and-model": 1500.0})))

    assert found["headrace"]["x best peer"] == pytest.approx(1.8)
    assert found["headrace"]["x overlapped"] == pytest.approx(0.9)
    assert found["headrace"]["of limit"] == pytest.approx(0.6)


def test_a_peer_far_behind_takes_part_in_two_rounds_unless_asked_for():
    assert rows(run(FakeArena(RATES)))["quix"]["rounds"] == 2
    assert rows(run(FakeArena(RATES)))["bytewax-tuned"]["rounds"] == 5
    assert rows(run(FakeArena(RATES), "--thorough"))["quix"]["rounds"] == 5


def test_a_fast_contestant_gets_a_longer_backlog():
    arena = FakeArena({"headrace": 100_000.0, "quix": 50.0})
    run(arena)

    assert max(count for name, count in arena.ran if name == "headrace") == SMALL.ladder[-1]
    assert max(count for name, count in arena.ran if name == "quix") == SMALL.ladder[0]


def test_who_fails_is_left_out_with_the_reason_and_the_others_go_on():
    section = run(FakeArena({**RATES, "quix": 0.0}))

    assert [(one.contestant, one.reason) for one in section.skipped] == [("quix", "no answer")]
    assert set(rows(section)) == set(RATES) - {"quix"}


def test_the_order_turns_with_every_round():
    arena = FakeArena({"headrace": 900.0, "overlapped": 1000.0})
    run(arena, "--rounds", "2")

    assert [name for name, _ in arena.ran[2:]] == ["headrace", "overlapped", "overlapped", "headrace"]


def test_a_check_runs_everybody_once_on_the_smallest_backlog():
    arena = FakeArena(RATES)
    run(arena, "--check")

    assert sorted(arena.ran) == sorted((name, SMALL.ladder[0]) for name in RATES)


def test_wrong_answers_are_named():
    class Wrong(FakeArena):
        def measure(self, workload, contestant, count):
            return Run(100.0, 0, Agreement(10, 5, 0.0))

    assert any("quix gave wrong answers" in note for note in run(Wrong({"quix": 1.0})).notes)


def test_doubled_answers_are_counted():
    assert rows(run(FakeArena({"headrace": 9.0}, doubled=3), "--rounds", "2"))["headrace"]["doubled"] == 6


def test_every_contestant_that_a_test_names_exists():
    assert set(RATES) <= set(CONTESTANTS)
