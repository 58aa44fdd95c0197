from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from stream_workers.supervision.metrics_merge import Sample, merge_metrics


def exposition(count: int) -> str:
    registry = CollectorRegistry()
    Counter("jobs", "Jobs by {kind}.", ["kind"], registry=registry).labels('a "b" {c} \\').inc(count)
    Gauge("level", "Level.", registry=registry).set(count / 2)
    Histogram("wait", "Wait.", buckets=(1.0,), registry=registry).observe(count)
    return generate_latest(registry).decode()


def test_each_family_is_there_once_with_the_samples_of_every_slot() -> None:
    text = merge_metrics({"w-0": exposition(1), "w-1": exposition(3)})
    families = {family.name: family for family in text_string_to_metric_families(text)}
    heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    jobs = {sample.labels["slot"]: sample for sample in families["jobs"].samples if sample.name == "jobs_total"}
    assert {slot: sample.value for slot, sample in jobs.items()} == {"w-0": 1.0, "w-1": 3.0}
    assert jobs["w-0"].labels["kind"] == 'a "b" {c} \\'
    assert {sample.labels["slot"] for sample in families["level"].samples} == {"w-0", "w-1"}
    assert {sample.labels["slot"] for sample in families["wait"].samples} == {"w-0", "w-1"}


def test_own_samples_join_their_family() -> None:
    own = [
        Sample("up", "Up.", {"slot": 'a"b'}, 1.0),
        Sample("up", "Up.", {"slot": "c"}, 0.0),
        Sample("ready", "Ready.", {}, 1.0),
    ]
    families = {family.name: family for family in text_string_to_metric_families(merge_metrics({}, own))}
    assert [(sample.labels, sample.value) for sample in families["up"].samples] == [
        ({"slot": 'a"b'}, 1.0),
        ({"slot": "c"}, 0.0),
    ]
    assert families["ready"].samples[0].value == 1.0
