"""Old frames of a live stream give way to new ones."""

from hypothesis import given
from hypothesis import strategies as st

from stream_workers.batching.live_streams import MIN_SWEEP, LiveStreams
from stream_workers.batching.work import WorkItem
from tests.unit.stream_workers.builders import item


def queued(offset: int, key: bytes | None, partition: int = 0) -> WorkItem:
    made = item(offset, partition, key=key)
    made.queued = True
    return made


def test_all_but_the_newest_of_each_stream_are_overtaken() -> None:
    streams = LiveStreams()
    a, b = [queued(n, b"a") for n in range(3)], [queued(n, b"b") for n in range(3, 5)]
    streams.add([*a, *b])
    assert streams.take_superseded() == [*a[:2], b[0]]
    assert streams.take_superseded() == []


def test_records_without_a_key_and_like_keys_of_other_partitions_are_no_stream() -> None:
    streams = LiveStreams()
    streams.add([queued(0, None), queued(1, None), queued(0, b"a", 0), queued(0, b"a", 1)])
    assert streams.take_superseded() == []


def test_what_left_its_queue_is_not_overtaken() -> None:
    streams = LiveStreams()
    first, second = queued(0, b"a"), queued(1, b"a")
    streams.add([first, second])
    first.queued = False
    assert streams.take_superseded() == []


def test_streams_that_ended_are_forgotten() -> None:
    streams = LiveStreams()
    for number in range(4 * MIN_SWEEP):
        made = queued(0, b"%d" % number)
        streams.add([made])
        made.queued = False
    assert len(streams) <= MIN_SWEEP


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40))
def test_of_every_stream_the_newest_queued_record_stays(steps: list[tuple[int, bool]]) -> None:
    streams, alive = LiveStreams(), []
    for offset, (key, take) in enumerate(steps):
        made = queued(offset, b"%d" % key)
        streams.add([made])
        alive.append(made)
        if take:
            for overtaken in streams.take_superseded():
                overtaken.queued = False
            kept = [one for one in alive if one.queued]
            assert len({one.request.key for one in kept}) == len(kept)
            newest = {one.request.key: one.request.offset for one in alive}
            assert {one.request.key: one.request.offset for one in kept} == newest
