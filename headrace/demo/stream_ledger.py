"""The books of the demo: what was sent on each stream against what came out, read again from the first offset."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from producers.outcomes import Outcome
from schemas.records import DeadLetter


@dataclass(frozen=True)
class StreamLedger:
    """One stream's books. `sent` counts acknowledged requests; `strange` outcomes of requests that were never sent."""

    name: str
    sent: int
    results: int
    dead_letters: int
    missing: int
    doubled: int
    out_of_order: int
    strange: int

    @property
    def is_clean(self) -> bool:
        """Each request has exactly one outcome, in order, and nothing else came out."""
        return not (self.missing or self.doubled or self.out_of_order or self.strange)


def balance(sent: Mapping[str, Iterable[str]], outcomes: Sequence[Outcome]) -> list[StreamLedger]:
    """Balance each stream's acknowledged request ids against its outcomes, which come in order per result partition.

    An outcome belongs to the stream that is its key. Outcomes of unknown streams are booked under `(unknown)`.
    """
    by_stream: defaultdict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        name = (outcome.key or b"").decode(errors="replace")
        by_stream[name if name in sent else "(unknown)"].append(outcome)
    books = [_balance_stream(name, set(ids), by_stream[name]) for name, ids in sent.items()]
    if by_stream["(unknown)"]:
        books.append(_balance_stream("(unknown)", set(), by_stream["(unknown)"]))
    return books


def _balance_stream(name: str, sent: set[str], outcomes: Sequence[Outcome]) -> StreamLedger:
    times = Counter(outcome.request_id for outcome in outcomes)
    dead_letters = sum(isinstance(outcome, DeadLetter) for outcome in outcomes)
    return StreamLedger(
        name=name,
        sent=len(sent),
        results=len(outcomes) - dead_letters,
        dead_letters=dead_letters,
        missing=len(sent - times.keys()),
        doubled=sum(count - 1 for count in times.values()),
        out_of_order=_count_out_of_order(outcomes),
        strange=len(times.keys() - sent),
    )


def _count_out_of_order(outcomes: Sequence[Outcome]) -> int:
    """Count outcomes whose source offset lies below one that was written before them to the same partition."""
    highest: dict[tuple[str, int, str, int], int] = {}
    count = 0
    for outcome in outcomes:
        source, position = outcome.source, outcome.position
        lane = (position.topic, position.partition, source.topic, source.partition)
        count += source.offset < highest.get(lane, -1)
        highest[lane] = max(source.offset, highest.get(lane, -1))
    return count
