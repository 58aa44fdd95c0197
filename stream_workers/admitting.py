"""From what a poll brought to records in the ledger, each with its version, and with its outcome if it is refused."""

from stream_workers.batching.work import NO_VERSION, WorkItem
from stream_workers.kafka.group_member import Polled
from stream_workers.parts import WorkerParts
from stream_workers.unreadable import step_over


def admit(polled: Polled, parts: WorkerParts, now: float) -> list[WorkItem]:
    """Return the records that are ours now, in offset order per partition; what else the poll says is noted."""
    items: list[WorkItem] = []
    if polled.requests:
        stamps = parts.versions.stamps
        version_of = stamps.stamp if stamps.constant is None else None
        shared = stamps.constant or NO_VERSION
        taken = parts.intake.take_in(polled.requests, polled.faults, parts.assignments, shared, now, version_of)
        items = parts.ledger.admit(taken)
        parts.metrics.note_polled(items)
        parts.deadlines.add(items)
    if lost := sum(polled.records_lost.values()):
        parts.metrics.delivery.records_lost.inc(lost)
    for unreadable in polled.unreadable:
        items += parts.ledger.admit(step_over(unreadable, parts, now))
    for partition, end in polled.ends.items():
        parts.ledger.note_end(partition, end)
    return items
