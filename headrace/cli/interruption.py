"""Signals taken for Ctrl-C, by commands that have something to put back before they end."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDINGS = (signal.SIGTERM, signal.SIGHUP)
"""What a scheduler's time limit and a terminal that is gone send."""


@contextmanager
def as_ctrl_c(*signals: signal.Signals) -> Iterator[None]:
    """Raise KeyboardInterrupt in the main thread on any of `signals`, until the end of the block.

    One that is ignored stays so: whoever starts a command with nohup wants it to outlive the terminal.
    """
    before = {number: signal.getsignal(number) for number in signals}
    taken = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    for number in taken:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in taken.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
