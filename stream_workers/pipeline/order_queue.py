"""The batches that wait inside a model process, and which of them is the next. Pure."""

from dataclasses import dataclass

from stream_workers.links.messages import Run


@dataclass(slots=True)
class _Waiting:
    order: Run
    passed_over: int = 0


class OrderQueue:
    """At most as many orders as the process has slots. By priority, then as they came; none is passed over for ever."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []

    def __len__(self) -> int:
        """Orders that wait."""
        return len(self._waiting)

    def add(self, order: Run) -> None:
        """Take an order in."""
        self._waiting.append(_Waiting(order))

    def first(self) -> Run | None:
        """Return the order that `take` would give now, None when there is none."""
        return self._waiting[self._find_next()].order if self._waiting else None

    def take(self) -> Run:
        """Remove and return the order to run now. Raises IndexError when there is none."""
        if not self._waiting:
            raise IndexError("no order waits")
        following = self._find_next()
        for waiting in self._waiting[:following]:
            waiting.passed_over += 1
        return self._waiting.pop(following).order

    def _find_next(self) -> int:
        best = min(range(len(self._waiting)), key=lambda at: self._waiting[at].order.priority)
        for at, waiting in enumerate(self._waiting[:best]):
            if waiting.passed_over >= waiting.order.most_passed_over:
                return at
        return best
