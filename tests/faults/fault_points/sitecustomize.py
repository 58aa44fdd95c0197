"""Ends a member at a chosen point of its work. Python loads this file by its name, when its folder is on the path.

`FAULT_POINTS` names a folder. While it holds a file `armed`, the first member that comes to the point that the file
names takes the file away and does what the point says. Nothing of this exists in the product.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

Call = Callable[..., Any]

STALL_SECONDS = 6.0


class Points:
    """The folder that the test writes to."""

    def __init__(self, folder: Path) -> None:
        self._armed = folder / "armed"
        self._folder = folder

    def take(self, point: str) -> bool:
        """True once after the test has armed this point, in one process only."""
        try:
            if self._armed.read_text() != point:
                return False
            self._armed.rename(self._folder / f"taken-{point}")
        except FileNotFoundError:
            return False
        return True

    def pass_by(self, point: str) -> None:
        """End here, as the kernel would, if this is the point."""
        if self.take(point):
            os.kill(os.getpid(), signal.SIGKILL)


def after(points: Points, point: str, original: Call) -> Call:
    def call(*arguments: Any) -> Any:
        result = original(*arguments)
        points.pass_by(point)
        return result

    return call


def before(points: Points, point: str, original: Call) -> Call:
    def call(*arguments: Any) -> Any:
        points.pass_by(point)
        return original(*arguments)

    return call


def poll(points: Points, original: Call) -> Call:
    def call(*arguments: Any) -> Any:
        polled = original(*arguments)
        if polled.requests:
            points.pass_by("after-poll")
        return polled

    return call


def commit(points: Points, original: Call) -> Call:
    def call(writer: Any, *arguments: Any) -> Any:
        for point in ("after-flush", "stall-before-offsets"):
            if points.take(point):
                writer._live().flush(10)
                if point == "after-flush":
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(STALL_SECONDS)
        return original(writer, *arguments)

    return call


def step(points: Points, original: Call) -> Call:
    def call(writer: Any, function: Any, *arguments: Any, **options: Any) -> Any:
        if function.__name__ == "commit_transaction":
            points.pass_by("after-send-offsets")
            if points.take("stall-before-commit"):
                time.sleep(STALL_SECONDS)
        return original(writer, function, *arguments, **options)

    return call


def patch_member(points: Points) -> None:
    # Only a member has to load these.
    from stream_workers.kafka.group_member import GroupMember  # noqa: PLC0415 - see above
    from stream_workers.kafka.outcome_writers import TransactionalWriter  # noqa: PLC0415 - see above
    from stream_workers.pipeline.replica_pool import ReplicaPool  # noqa: PLC0415 - see above
    from stream_workers.rebalancing import PartitionLifecycle  # noqa: PLC0415 - see above

    for owner, name, make in (
        (GroupMember, "poll", partial(poll, points)),
        (ReplicaPool, "submit", partial(after, points, "mid-model")),
        (TransactionalWriter, "send", partial(after, points, "after-first-send")),
        (TransactionalWriter, "commit", partial(commit, points)),
        (TransactionalWriter, "_step", partial(step, points)),
        (TransactionalWriter, "settle_doubts", partial(before, points, "after-commit")),
        (TransactionalWriter, "open", partial(after, points, "after-open")),
        (PartitionLifecycle, "on_assigned", partial(after, points, "after-assigned")),
    ):
        setattr(owner, name, make(getattr(owner, name)))


if "FAULT_POINTS" in os.environ and "stream_workers.member" in sys.orig_argv:
    patch_member(Points(Path(os.environ["FAULT_POINTS"])))
