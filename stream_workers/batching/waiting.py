"""How long a batch that is not full waits for more records. The batcher asks, the worker tells what happens."""

from typing import Protocol


class WaitPolicy(Protocol):
    """Decides the wait. All times are monotonic seconds; nothing here reads a clock."""

    def wait_seconds(self, now: float) -> float:
        """Return how long a batch waits, counted from the poll of its first record; `inf` until something changes."""

    def note_arrivals(self, count: int, now: float) -> None:
        """So many records were polled."""

    def note_in_hand(self, batches: int) -> None:
        """So many batches are with the models now, running or ready."""

    def note_service(self, batch_size: int, seconds: float) -> None:
        """A model took so long for a batch, from its start to its answer."""


class FixedWait:
    """The same wait whatever the load."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def wait_seconds(self, now: float) -> float:  # noqa: ARG002 - part of the protocol
        """Return the wait that was given."""
        return self._seconds

    def note_arrivals(self, count: int, now: float) -> None:
        """Changes nothing."""

    def note_in_hand(self, batches: int) -> None:
        """Changes nothing."""

    def note_service(self, batch_size: int, seconds: float) -> None:
        """Changes nothing."""
