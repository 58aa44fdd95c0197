"""The limit of client and broker: the overlapped loop without a model, with answers of the same size."""

from collections.abc import Sequence

from benchmarks.contestants.assignment import Assignment, read_assignment
from benchmarks.contestants.overlapped import OverlappedLoop


class Echo:
    """Stands in for the model: the same answer for all."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def answer(self, payloads: Sequence[bytes]) -> list[bytes]:
        """One constant per payload."""
        return [self._answer] * len(payloads)


class TransportLoop(OverlappedLoop):
    """Consumes and produces."""

    def __init__(self, task: Assignment) -> None:
        super().__init__(task)
        step = task.load_model()
        self._echo = Echo(step.answer(step.payloads[:1])[0])

    def load_model(self) -> Echo:
        """See :class:`OverlappedLoop`."""
        return self._echo


if __name__ == "__main__":
    TransportLoop(read_assignment()).run()
