"""What survives a crash: no row is written twice, none is forgotten."""

import random

from hypothesis import given
from hypothesis import strategies as st

from producers.publish_frontier import PublishFrontier, PublishMark, choose_scan_start
from schemas.records import Position

TOPIC = "requests"


class Broker:
    """Appends rows to partitions, and acknowledges them later, or never."""

    def __init__(self, partitions: int) -> None:
        self.logs: list[list[int]] = [[] for _ in range(partitions)]
        self.unacknowledged: list[list[int]] = [[] for _ in range(partitions)]

    def append(self, row: int, partition: int) -> None:
        self.logs[partition].append(row)
        self.unacknowledged[partition].append(row)

    def acknowledge(self, partition: int, frontier: PublishFrontier) -> None:
        if self.unacknowledged[partition]:
            row = self.unacknowledged[partition].pop(0)
            frontier.settle(row, Position(TOPIC, partition, self.logs[partition].index(row)))

    def scan(self, positions: dict[tuple[str, int], int]) -> set[int]:
        return {row for partition, log in enumerate(self.logs) for row in log[positions.get((TOPIC, partition), 0) :]}


def run_until_crash(broker: Broker, marks: list[PublishMark], rows: int, dice: random.Random, steps: int) -> None:
    """Play one run: publish what must be published, acknowledge and mark at random, then stop dead."""
    partitions = len(broker.logs)
    settled, positions = choose_scan_start(marks, {(TOPIC, number): 0 for number in range(partitions)})
    frontier = PublishFrontier(settled, positions, broker.scan(positions))
    broker.unacknowledged = [[] for _ in range(partitions)]
    queued: list[tuple[int, int]] = []
    next_row = 0
    for _ in range(steps):
        action = dice.choice(("send", "send", "append", "append", "acknowledge", "mark"))
        if action == "send" and next_row < rows:
            if not frontier.is_settled(next_row):
                frontier.send(next_row)
                queued.append((next_row, dice.randrange(partitions)))
            else:
                frontier.settle(next_row)
            next_row += 1
        elif action == "append" and queued:
            # Partitions are served independently, each in its own order.
            partition = dice.choice(queued)[1]
            first = next(entry for entry in queued if entry[1] == partition)
            queued.remove(first)
            broker.append(*first)
        elif action == "acknowledge":
            broker.acknowledge(dice.randrange(partitions), frontier)
        elif action == "mark":
            marks.append(frontier.mark())


@given(seed=st.integers(0, 2**32), rows=st.integers(1, 30), partitions=st.integers(1, 3), crashes=st.integers(1, 5))
def test_no_row_is_written_twice_over_any_number_of_crashes(seed, rows, partitions, crashes):
    dice = random.Random(seed)
    broker, marks = Broker(partitions), []
    for _ in range(crashes):
        run_until_crash(broker, marks, rows, dice, dice.randrange(80))
    written = [row for log in broker.logs for row in log]
    assert len(written) == len(set(written))


@given(seed=st.integers(0, 2**32), rows=st.integers(1, 30), partitions=st.integers(1, 3), crashes=st.integers(1, 4))
def test_no_row_is_taken_for_written_that_is_not(seed, rows, partitions, crashes):
    dice = random.Random(seed)
    broker, marks = Broker(partitions), []
    for _ in range(crashes):
        run_until_crash(broker, marks, rows, dice, dice.randrange(80))
    settled, positions = choose_scan_start(marks, {})
    frontier = PublishFrontier(settled, positions, broker.scan(positions))
    written = {row for log in broker.logs for row in log}
    assert {row for row in range(rows) if frontier.is_settled(row)} == written


def test_a_row_settled_out_of_order_does_not_move_the_frontier():
    frontier = PublishFrontier(0, {})
    for row in range(3):
        frontier.send(row)
    frontier.settle(2, Position(TOPIC, 0, 9))
    assert frontier.mark() == PublishMark(0, 3, {(TOPIC, 0): 10})
    frontier.settle(0)
    frontier.settle(1)
    assert frontier.mark().settled == 3


def test_reading_starts_at_the_latest_mark_that_no_unsettled_row_precedes():
    marks = [
        PublishMark(2, 5, {(TOPIC, 0): 2}),
        PublishMark(6, 9, {(TOPIC, 0): 6}),
        PublishMark(8, 20, {(TOPIC, 0): 15}),
    ]
    assert choose_scan_start(marks, {(TOPIC, 0): 0, (TOPIC, 1): 4}) == (8, {(TOPIC, 0): 2, (TOPIC, 1): 4})


def test_a_job_without_marks_is_read_from_its_start():
    assert choose_scan_start([], {(TOPIC, 0): 7}) == (0, {(TOPIC, 0): 7})


def test_a_row_of_an_earlier_run_is_still_found_after_a_second_crash():
    broker = Broker(1)
    broker.append(2, 0)  # rows 0 and 1 were on their way to another broker when the first run died
    marks: list[PublishMark] = []
    settled, positions = choose_scan_start(marks, {(TOPIC, 0): 0})
    second = PublishFrontier(settled, positions, broker.scan(positions))
    second.send(0)
    broker.append(0, 0)
    second.settle(0, Position(TOPIC, 0, 1))
    marks.append(second.mark())

    settled, positions = choose_scan_start(marks, {(TOPIC, 0): 0})
    third = PublishFrontier(settled, positions, broker.scan(positions))
    assert [third.is_settled(row) for row in range(3)] == [True, False, True]
