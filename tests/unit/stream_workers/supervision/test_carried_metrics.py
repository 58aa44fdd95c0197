"""Counters of a slot outlive its members; gauges do not."""

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from stream_workers.supervision.carried_metrics import CarriedMetrics


class Member:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.answers = Counter("answers", "Answers.", ["kind"], registry=self.registry)
        self.held = Gauge("held", "Held.", registry=self.registry)
        self.wait = Histogram("wait_seconds", "Waits.", buckets=(1.0, 2.0), registry=self.registry)

    def text(self) -> str:
        return generate_latest(self.registry).decode()


def values(text: str) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}"] = sample.value
    return found


def test_counts_go_on_and_gauges_end() -> None:
    carried, first, second = CarriedMetrics(), Member(), Member()
    first.answers.labels("ok").inc(3)
    first.answers.labels("expired").inc(1)
    first.held.set(7)
    first.wait.observe(0.5)
    carried.hear(first.text())
    carried.end()
    between = values(carried.text())
    assert (between["answers_total{kind=ok}"], between["wait_seconds_count{}"]) == (3.0, 1.0)
    assert "held{}" not in between
    second.answers.labels("ok").inc(2)
    second.wait.observe(1.5)
    carried.hear(second.text())
    after = values(carried.text())
    assert after["answers_total{kind=ok}"] == 5.0
    assert after["answers_total{kind=expired}"] == 1.0
    assert after["wait_seconds_bucket{le=1.0}"] == 1.0
    assert (after["wait_seconds_count{}"], after["wait_seconds_sum{}"]) == (2.0, 2.0)
    assert after["held{}"] == 0.0


def test_a_slot_without_a_past_says_what_its_member_says() -> None:
    carried, member = CarriedMetrics(), Member()
    carried.hear(member.text())
    assert carried.text() == member.text()
    assert CarriedMetrics().text() == ""


@given(st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=6))
def test_no_counter_ever_steps_back(lives: list[list[int]]) -> None:
    carried, last, total = CarriedMetrics(), 0.0, 0
    for life in lives:
        member = Member()
        for amount in life:
            member.answers.labels("ok").inc(amount)
            total += amount
            carried.hear(member.text())
            now = values(carried.text())["answers_total{kind=ok}"]
            assert now >= last
            last = now
        carried.end()
    assert values(carried.text()).get("answers_total{kind=ok}", 0.0) == total
