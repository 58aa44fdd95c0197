"""What a member asks of its model processes."""

from collections.abc import Sequence

from stream_workers.batching.work import ServedVersion
from stream_workers.member import Reporter

A1, A3, B2, B4 = (ServedVersion("m", name, epoch) for name, epoch in (("a", 1), ("a", 3), ("b", 2), ("b", 4)))


class FakeLink:
    def __init__(self) -> None:
        self.wanted: list[ServedVersion] = []

    def serve(self, wanted: Sequence[ServedVersion]) -> None:
        self.wanted = list(wanted)


def test_the_versions_of_records_in_hand_are_wanted_too_each_once_behind_the_active_one() -> None:
    link = FakeLink()
    reporter = Reporter(link, None)  # type: ignore[arg-type]
    reporter.want(B4, {A1, A3, B2})
    assert link.wanted == [B4, A3]
    reporter.want(B4)
    assert link.wanted == [B4]
