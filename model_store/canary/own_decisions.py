"""Tells the decisions of this command from everybody else's."""

from collections.abc import Callable

from model_store.switch_contract import TimelineDoor
from model_store.timeline import Timeline, TimelineEntry


class OwnDecisions:
    """A door to the timeline that remembers every decision it was asked to store, also one whose answer was lost."""

    def __init__(self, door: TimelineDoor) -> None:
        self._door = door
        self._tried: list[TimelineEntry] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing was tried."""
        return not self._tried

    def is_own(self, entry: TimelineEntry) -> bool:
        """Whether a stored decision was made through this door."""
        return entry in self._tried

    def read(self, model: str) -> Timeline | None:
        """Return the model's timeline."""
        return self._door.read(model)

    def move(self, model: str, change: Callable[[Timeline], Timeline], *, replace: bool = False) -> Timeline:
        """Store what `change` makes of the timeline."""

        def remember(present: Timeline) -> Timeline:
            moved = change(present)
            self._tried.append(moved.entries[-1])
            return moved

        return self._door.move(model, remember, replace=replace)
