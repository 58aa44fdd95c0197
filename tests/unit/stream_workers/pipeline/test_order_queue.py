"""Which batch a model process runs next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_workers.links.messages import Run
from stream_workers.pipeline.order_queue import OrderQueue


def order(batch_id: int, priority: int = 0, most_passed_over: int = 3) -> Run:
    return Run(batch_id, 0, False, [], [], [], [], priority, most_passed_over)


def test_the_most_urgent_goes_first_and_equals_go_as_they_came() -> None:
    queue = OrderQueue()
    for one in (order(1, 1), order(2, 0), order(3, 1), order(4, 0)):
        queue.add(one)
    assert [queue.take().batch_id for _ in range(4)] == [2, 4, 1, 3]
    assert len(queue) == 0
    assert queue.first() is None
    with pytest.raises(IndexError, match="no order waits"):
        queue.take()


@given(limit=st.integers(0, 9), rounds=st.integers(1, 40))
def test_an_order_is_passed_over_so_often_and_no_more(limit: int, rounds: int) -> None:
    queue = OrderQueue()
    queue.add(order(0, 1, limit))
    taken = []
    for number in range(1, rounds + 1):
        queue.add(order(number, 0, limit))
        foretold = queue.first()
        taken.append(queue.take().batch_id)
        assert foretold is not None
        assert foretold.batch_id == taken[-1]
    if rounds > limit:
        assert taken.index(0) == limit
