"""The supervisor's side of one model process: its ring, its state, and how it is handed to a member."""

import enum
import os
from collections.abc import Callable, Sequence
from typing import Protocol

from stream_workers.batching.work import ServedVersion
from stream_workers.links.control_channel import make_pair
from stream_workers.links.input_ring import InputRing
from stream_workers.links.messages import Attach, FromModel, LoadOrder, Message, OpenSession
from stream_workers.supervision.child_process import ChildProcess
from stream_workers.supervision.exit_reason import ExitReason, count_out_of_memory_kills, explain_exit
from stream_workers.supervision.load_limits import read_peak_bytes

Post = Callable[[Message, Sequence[int]], None]
"""Sends a message with descriptors, which it takes over, to the slot's member."""

END_SECONDS = 2.0


class InstanceState(enum.Enum):
    """Where a model process is in its life."""

    LOADING = "loading"
    LOADED = "loaded"
    ENDING = "ending"
    """Told to end, or killed; nobody waits for its answers."""


class ModelInstance:
    """One incarnation of a model process; its number is never used again."""

    def __init__(
        self,
        number: int,
        version: ServedVersion,
        child: ChildProcess[FromModel],
        ring_descriptor: int,
        order: LoadOrder,
        now: float,
    ) -> None:
        self.number = number
        self.version = version
        self.child = child
        self.state = InstanceState.LOADING
        self.started_at = now
        self.kill_code: str | None = None
        self.is_attached = False
        self._order = order
        self._ring_descriptor = ring_descriptor
        self._ring = InputRing(os.dup(ring_descriptor), order.slots, order.slot_bytes)
        self._end_at: float | None = None
        self._out_of_memory_kills = count_out_of_memory_kills()

    @property
    def was_useful(self) -> bool:
        """True when it has answered anything."""
        return self._ring.progress().answers > 0

    def attach(self, version: ServedVersion, post: Post) -> None:
        """Connect it to the present member by a fresh socket; whatever it did for an earlier one is dropped."""
        ours, theirs = make_pair()
        self.child.channel.send(OpenSession(), [ours.detach()])
        attach = Attach(self.number, version, self._order.slots, self._order.slot_bytes)
        post(attach, [theirs.detach(), os.dup(self._ring_descriptor)])
        self.is_attached = True

    def end(self, now: float) -> None:
        """Let it end by itself; `press` kills it when it does not."""
        self.state = InstanceState.ENDING
        self._end_at = now + END_SECONDS
        self.child.close()

    def kill(self, code: str | None) -> None:
        """Kill it, for a reason that its batches will carry; None when nobody waits for it."""
        self.kill_code = code
        if code is None:
            self.state = InstanceState.ENDING
        self.child.kill()

    def press(self, now: float) -> None:
        """Kill it when it was told to end and has not."""
        if self._end_at is not None and now >= self._end_at:
            self._end_at = None
            self.child.kill()

    def read_peak_bytes(self) -> int | None:
        """Return the most memory that it has had at once; None where the system does not say."""
        return read_peak_bytes(self.child.pid)

    def explain(self, return_code: int) -> ExitReason:
        """Say why it ended."""
        before, after = self._out_of_memory_kills, count_out_of_memory_kills()
        kills = None if before is None or after is None else after - before
        return explain_exit(return_code, self.kill_code, kills)

    def discard(self) -> None:
        """Close all that is left of it, once it has ended."""
        self.child.close()
        self._ring.close()
        os.close(self._ring_descriptor)


class StartsModels(Protocol):
    """See :meth:`stream_workers.supervision.launcher.Launcher.start_model`."""

    def __call__(self, version: ServedVersion, now: float, *, is_shadow: bool) -> ModelInstance:
        """Start a model process and order the version."""
