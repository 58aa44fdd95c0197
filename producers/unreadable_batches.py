"""Where reading can go on behind a batch that cannot be taken apart."""

from collections.abc import Callable

_MAX_BATCH_RECORDS = 1 << 31


def find_first_readable(offset: int, is_readable: Callable[[int], bool]) -> int:
    """Find the first offset from `offset` on that can be read; `offset` itself when nothing is wrong there.

    A batch is taken apart from its beginning whatever offset is asked for, so all its offsets fail alike and the first
    one behind it does not: the search doubles its step, then halves the rest. A second bad batch behind the first may
    be passed in one go.
    """
    if is_readable(offset):
        return offset
    step = 1
    while not is_readable(offset + step) and step < _MAX_BATCH_RECORDS:
        step *= 2
    bad, good = offset + step // 2, offset + step
    while good - bad > 1:
        middle = (bad + good) // 2
        if is_readable(middle):
            good = middle
        else:
            bad = middle
    return good
