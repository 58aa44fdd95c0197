"""Streams do not share their troubles."""

from producers.sources.item import Item, ItemError
from producers.sources.streams import StreamRunner, name_streams
from schemas.errors import PayloadTooLargeError, PublishError


def items(count, *faults):
    def read():
        for sequence in range(count):
            if sequence in faults:
                yield ItemError(sequence, f"frame {sequence}", "damaged")
            else:
                yield Item(sequence, b"x", "text/plain", f"frame {sequence}")

    return read


def run(sources, send=lambda stream, item: None, **options):
    return {report.stream_id: report for report in StreamRunner(sources, send, **options).run(tick_seconds=0.01)}


def test_every_stream_runs_to_its_end():
    sent = []
    reports = run({"a": items(3), "b": items(5)}, lambda stream, item: sent.append((stream, item.sequence)))
    assert (reports["a"].sent, reports["b"].sent) == (3, 5)
    assert [sequence for stream, sequence in sent if stream == "b"] == list(range(5))
    assert all(report.ended and not report.broken for report in reports.values())


def test_a_faulty_item_is_counted_and_the_stream_goes_on():
    report = run({"a": items(4, 1, 2)})["a"]
    assert (report.sent, report.faulty, report.last_fault, report.broken) == (2, 2, "frame 2: damaged", "")


def test_a_camera_that_is_cut_off_does_not_disturb_the_others():
    def cut():
        yield from items(2)()
        yield ItemError(2, "frame 2", "connection lost", final=True)

    reports = run({"cut": cut, "a": items(5), "b": items(5)})
    assert (reports["cut"].sent, reports["cut"].broken) == (2, "connection lost")
    assert (reports["a"].sent, reports["b"].sent) == (5, 5)


def test_a_source_that_raises_breaks_alone():
    def raising():
        yield from items(1)()
        raise RuntimeError("bug")

    reports = run({"bad": raising, "good": items(5)})
    assert reports["bad"].broken == "RuntimeError: bug"
    assert reports["good"].sent == 5


def test_an_item_that_is_too_large_costs_itself_only():
    def send(stream, item):
        if item.sequence == 1:
            raise PayloadTooLargeError("9 bytes")

    report = run({"a": items(3)}, send)["a"]
    assert (report.sent, report.faulty, report.last_fault) == (2, 1, "frame 1: 9 bytes")


def test_a_stream_that_cannot_publish_ends():
    def send(stream, item):
        raise PublishError("buffer full")

    report = run({"a": items(3)}, send)["a"]
    assert (report.sent, report.broken) == (0, "buffer full")


def test_a_limit_ends_each_stream():
    reports = run({"a": items(10), "b": items(2)}, limit=3)
    assert (reports["a"].sent, reports["b"].sent) == (3, 2)


def test_stopping_ends_endless_streams():
    def endless():
        sequence = 0
        while True:
            yield Item(sequence, b"", "text/plain", "")
            sequence += 1

    runner = StreamRunner({"a": endless}, lambda stream, item: None, fps=1000)
    reports = runner.run(runner.stop, tick_seconds=0.01)
    assert reports[0].ended
    assert not reports[0].broken


def test_many_streams_of_one_source_have_names_of_their_own():
    assert name_streams("cam", 1) == ["cam"]
    assert name_streams("cam", 3) == ["cam-0", "cam-1", "cam-2"]
