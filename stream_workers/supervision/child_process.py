"""One child of the supervisor with its control channel. Started fresh (never forked), it inherits one descriptor."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Generic

import msgspec

from stream_workers.links.control_channel import ControlChannel, make_pair
from stream_workers.links.framing import FrameError, LinkClosedError
from stream_workers.links.messages import MessageType

_STDERR = 2


class ChildProcess(Generic[MessageType]):
    """Start with :meth:`start` from the main thread, which lives as long as the supervisor: see `parent_death`."""

    def __init__(self, process: "subprocess.Popen[bytes]", channel: ControlChannel[MessageType]) -> None:
        self._process = process
        self.channel = channel
        self.pid = process.pid
        self.is_open = True
        """False once the channel is closed, from either end."""

    @classmethod
    def start(
        cls, module: str, decoder: msgspec.msgpack.Decoder[MessageType], environment: Mapping[str, str]
    ) -> "ChildProcess[MessageType]":
        """Run `python -m MODULE DESCRIPTOR PARENT`. Raises OSError when the system has no room for a process."""
        ours, theirs = make_pair()
        with theirs:
            try:
                process = subprocess.Popen(  # noqa: S603 - our own interpreter and module, no shell
                    [sys.executable, "-m", module, str(theirs.fileno()), str(os.getpid())],
                    stdin=subprocess.DEVNULL,
                    stdout=_STDERR,  # what a model prints is not the worker's output
                    pass_fds=[theirs.fileno()],
                    env=environment,
                    # Ctrl-C is for the supervisor, which then drains; it must not reach the children by itself.
                    process_group=0,
                )
            except OSError:
                ours.close()
                raise
        return cls(process, ControlChannel(ours, decoder))

    def poll(self) -> int | None:
        """Return the return code once it has ended. What it started itself, in its group, ends with it."""
        if self._process.returncode is None:
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return None
            self._kill_group()  # before it is reaped: until then nobody else can have its number
        return self._process.poll()

    def terminate(self) -> None:
        """Ask it to end."""
        if self._process.returncode is None:
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it and what it has started."""
        if self._process.returncode is None:
            self._kill_group()

    def receive(self) -> list[MessageType]:
        """Return all that has arrived. A child that closed its channel or broke its frames is not read any more."""
        messages: list[MessageType] = []
        try:
            while self.is_open and (arrived := self.channel.receive()):
                messages += [message for message, _ in arrived]
        except LinkClosedError:
            self.close()
        except FrameError:
            self.close()
            self.kill()
        return messages

    def close(self) -> None:
        """Close the channel: the child's end of file."""
        self.is_open = False
        self.channel.close()

    def reap(self) -> int:
        """Kill it and wait for it."""
        self.kill()
        self.close()
        return self._process.wait()

    def _kill_group(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
