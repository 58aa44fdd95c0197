from stream_workers.batching.in_hand import InHand
from stream_workers.batching.work import Batch, ReleaseReason, Rerun, RunMode, ServedVersion
from tests.unit.stream_workers.builders import answered, item

V1, V2 = ServedVersion("m", "v1", 1), ServedVersion("m", "v2", 2)


def test_versions_are_those_of_batches_in_flight_and_of_reruns() -> None:
    in_hand = InHand()
    assert (bool(in_hand), in_hand.versions()) == (False, set())
    batch = Batch(1, [item(0)], ReleaseReason.FULL, V1)
    in_hand.start(batch)
    in_hand.add_reruns([Rerun([item(1)], RunMode.TOGETHER, V2)])
    assert in_hand.versions() == {V1, V2}
    in_hand.end(batch)
    assert (in_hand.count_in_flight(), in_hand.versions()) == (0, {V2})
    assert in_hand.take_rerun(lambda _: True) is not None
    assert not in_hand


def test_a_rerun_whose_version_cannot_start_holds_up_no_other() -> None:
    in_hand = InHand()
    first, second, third = (Rerun([item(n)], RunMode.TOGETHER, version) for n, version in enumerate((V1, V2, V1)))
    in_hand.add_reruns([first, second, third])
    assert in_hand.take_rerun(lambda version: version == V2) is second
    assert in_hand.take_rerun(lambda version: version == V2) is None
    assert in_hand.take_rerun(lambda _: True) is first


def test_only_records_without_an_outcome_are_open() -> None:
    in_hand = InHand()
    in_hand.start(Batch(1, [answered(item(0, 0)), item(0, 1)], ReleaseReason.FULL, V1))
    assert not in_hand.holds_any([("requests", 0)])
    assert in_hand.holds_any([("requests", 0), ("requests", 1)])
