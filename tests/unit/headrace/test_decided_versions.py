from headrace.cli.decided_versions import make_decisions
from model_store.timeline import Timeline

CUTS = {1: {("requests", 0): 3}}


def test_a_timeline_is_handed_to_the_audit_with_its_modes_splits_and_cuts() -> None:
    timeline = Timeline().with_activation({"a": 9, "b": 1}, 0, 100)
    timeline = timeline.with_activation("b", 1, 200, effective_from_ms=5000)
    decisions = make_decisions(timeline, CUTS)
    first, second = decisions.entries
    assert (first.epoch, first.versions, first.effective_from_ms) == (1, {"a", "b"}, None)
    assert (second.epoch, second.versions, second.effective_from_ms) == (2, {"b"}, 5000)
    assert [first.pick(b"%d" % key) for key in range(50)] == [
        timeline.entries[0].pick(b"%d" % key) for key in range(50)
    ]
    assert decisions.cuts == CUTS
