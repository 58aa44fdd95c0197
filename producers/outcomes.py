"""Records as they lie in Kafka, and the outcomes that a reader makes of them: a result or a dead letter."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from schemas.errors import EnvelopeError
from schemas.headers import Headers, decode_dead_letter, decode_result
from schemas.records import DeadLetter, Position, Result

Outcome = Result | DeadLetter


class Record(NamedTuple):
    """One record as it lies in Kafka; `timestamp_ms` is epoch milliseconds."""

    position: Position
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def decode_outcome(record: Record, *, dead_letters_topic: str) -> Outcome:
    """Read one record of a result or dead-letter topic. Raises EnvelopeError when it is neither."""
    if record.position.topic == dead_letters_topic:
        return decode_dead_letter(record.key, record.value, record.headers, record.position)
    if record.value is None:
        raise EnvelopeError(f"{record.position}: not a result: it has no value")
    return decode_result(record.key, record.value, record.headers, record.position)


class OutcomeMemory:
    """Outcomes that were read while others were waited for: the first of each id, the last `size` ids."""

    def __init__(self, size: int = 4096) -> None:
        self._size = size
        self._outcomes: OrderedDict[str, Outcome] = OrderedDict()

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Remember outcomes; none of them is dropped before the next `take`."""
        for outcome in outcomes:
            self._outcomes.setdefault(outcome.request_id, outcome)

    def take(self, wanted: set[str]) -> list[Outcome]:
        """Hand out the remembered outcomes of `wanted`, oldest first, and strike their ids off that set."""
        taken = [self._outcomes.pop(known) for known in list(self._outcomes) if known in wanted]
        wanted.difference_update(outcome.request_id for outcome in taken)
        while len(self._outcomes) > self._size:
            self._outcomes.popitem(last=False)
        return taken
