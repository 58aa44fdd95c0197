"""A member's line to its supervisor: who it is, its settings, its model processes, and how it says that it is well."""

import sys
from collections.abc import Sequence

import structlog

from schemas.configuration import restore_settings
from schemas.settings import Settings
from stream_workers.batching.work import ServedVersion
from stream_workers.links.control_channel import ControlChannel
from stream_workers.links.messages import (
    Attach,
    Candidate,
    Detach,
    Hello,
    KillInstance,
    Refused,
    Release,
    Residents,
    Serve,
    Status,
    ToMember,
    to_member_decoder,
)
from stream_workers.links.parent_death import die_with_parent
from stream_workers.links.process_name import member_name, set_process_name

HELLO_SECONDS = 30.0

_log = structlog.get_logger("supervision")


class MemberLink:
    """Made once, at the start of a member. All calls come from the member's main thread."""

    def __init__(self, channel: ControlChannel[ToMember], hello: Hello) -> None:
        self._channel = channel
        self.slot = hello.slot
        """Identity in the group and in transactions: unique among all members of the group."""
        self.slot_number = hello.slot_number
        self.serving = hello.serving
        """What the slot's model processes serve already, if this member replaces another."""
        self.declared = hello.declared
        """What was last asked for in this slot: it holds until `serve` says something else."""
        self.settings: Settings = restore_settings(hello.settings)
        self.refused: list[Refused] = []
        """Versions that were wanted and could not be loaded, for the member to count and clear."""
        self._has_asked = False
        self._early: list[tuple[ToMember, list[int]]] = []

    @classmethod
    def from_environment(cls, arguments: Sequence[str] | None = None) -> "MemberLink":
        """Take up the link that the supervisor started this process with: `DESCRIPTOR PARENT` on the command line.

        Returns when the supervisor has given this process a slot, which for a spare may be much later. From the
        first moment on it dies with its supervisor. Raises LinkClosedError when that has gone already.
        """
        descriptor, parent = (int(argument) for argument in (sys.argv[1:] if arguments is None else arguments))
        die_with_parent(parent)
        channel = ControlChannel.adopt(descriptor, to_member_decoder)
        early: list[tuple[ToMember, list[int]]] = []
        while not early:
            channel.wait(HELLO_SECONDS)
            early = channel.receive()
        hello = early.pop(0)[0]
        if not isinstance(hello, Hello):
            raise TypeError(f"the supervisor began with {type(hello).__name__}")
        set_process_name(member_name(hello.slot))
        link = cls(channel, hello)
        link._early = early
        return link

    def close(self) -> None:
        """Close the channel: the supervisor's end of file."""
        self._channel.close()

    # -- the member's main loop ----------------------------------------------------------------------------------------

    def send_status(self, *, ready: bool, reasons: Sequence[str] = (), metrics: str = "") -> None:
        """Say how the member is, from its main loop, twice a second: 30 s without one and it is killed as hung."""
        if not self._channel.has_unsent:  # a supervisor that does not read gets the next one, not all of them
            self._channel.send(Status(ready, list(reasons), metrics))

    def serve(
        self, wanted: Sequence[ServedVersion], candidate: Candidate | None = None, shadow: str | None = None
    ) -> None:
        """Say what is wanted from now on, the main version first; see :class:`stream_workers.links.messages.Serve`.

        A version that is not loaded is loaded beside those that serve. The answers are changes of the pool's
        `active_version()`, `resident()` and `residency()`, or an entry in `refused`. Asking again is free.
        """
        asked = Serve(list(wanted), candidate, shadow)
        if asked != self.declared or not self._has_asked:
            self.declared, self._has_asked = asked, True
            self._channel.send(asked)

    # -- the pool ------------------------------------------------------------------------------------------------------

    def fileno(self) -> int:
        """For selectors."""
        return self._channel.fileno()

    @property
    def has_unsent(self) -> bool:
        """True while messages wait for the supervisor to read."""
        return self._channel.has_unsent

    def flush(self) -> None:
        """Send what is queued."""
        self._channel.flush()

    def receive(self) -> list[tuple[Attach | Detach | Residents, list[int]]]:
        """Return what the pool must know. Raises LinkClosedError when the supervisor is gone."""
        messages, self._early = self._early, []
        messages += self._channel.receive()
        wanted: list[tuple[Attach | Detach | Residents, list[int]]] = []
        for message, descriptors in messages:
            if isinstance(message, Refused):
                _log.error("version refused", version=message.version.version, reason=message.reason)
                self.refused.append(message)
            elif not isinstance(message, Hello):
                wanted.append((message, descriptors))
        return wanted

    def release(self, instance: int) -> None:
        """Let an instance go that has nothing in hand."""
        self._channel.send(Release(instance))

    def kill_instance(self, instance: int, code: str) -> None:
        """Have an instance killed that makes no progress."""
        self._channel.send(KillInstance(instance, code))
