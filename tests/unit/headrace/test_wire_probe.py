import struct

import pytest

from headrace.local_stack.wire_probe import count_brokers, metadata_request


def test_the_request_says_how_long_it_is() -> None:
    request = metadata_request()
    assert struct.unpack_from(">ihh", request) == (len(request) - 4, 3, 1)


def test_live_brokers_are_counted() -> None:
    assert count_brokers(struct.pack(">ii", 7, 1) + b"the rest") == 1


@pytest.mark.parametrize("answer", [b"", b"HTTP", struct.pack(">ii", 8, 1), struct.pack(">ii", 7, -1)])
def test_an_answer_to_something_else_names_no_broker(answer: bytes) -> None:
    assert count_brokers(answer) == 0
