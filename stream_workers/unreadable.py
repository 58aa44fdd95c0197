"""A batch that the client cannot unpack would hold its partition for ever: answer its records and step over it."""

import structlog

from schemas.errors import PipelineError, UnreadableBatchError
from schemas.records import BYTES, Request, Stage
from stream_workers.batching.intake import RECORD_OVERHEAD_BYTES, refusal
from stream_workers.batching.work import WorkItem
from stream_workers.kafka.group_member import UnreadableBatch
from stream_workers.parts import WorkerParts

MAX_DEAD_LETTERS = 1000
"""One dead letter per record up to this many; a longer batch is answered by its last ones, which name the range."""

_log = structlog.get_logger("worker")


def step_over(unreadable: UnreadableBatch, parts: WorkerParts, now: float) -> list[WorkItem]:
    """Seek behind the batch and return one refused item per record in it that was still to be read.

    The range comes from the batch's own header. When that cannot be had now, nothing is done: the client reports again.
    """
    topic, partition = unreadable.partition
    assignment = parts.assignments.get(unreadable.partition)
    if assignment is None:
        return []
    try:
        first, last = parts.batch_span(topic, partition, unreadable.offset)
    except PipelineError as failure:
        _log.warning("unreadable batch", topic=topic, partition=partition, reason=str(failure))
        return []
    error = UnreadableBatchError(f"offsets {first} to {last} cannot be unpacked: {unreadable.message}")
    _log.error("unreadable batch", topic=topic, partition=partition, first=first, last=last)
    parts.metrics.delivery.unreadable.inc()
    parts.member.seek(unreadable.partition, last + 1)
    items = []
    for offset in range(max(first, last - MAX_DEAD_LETTERS + 1), last + 1):
        request = Request(
            id=f"{topic}-{partition}-{offset}",
            topic=topic,
            partition=partition,
            offset=offset,
            timestamp_ms=-1,
            key=None,
            payload=b"",
            content_type=BYTES,
        )
        item = WorkItem(request, assignment, now, BYTES, RECORD_OVERHEAD_BYTES)
        item.version = parts.versions.stamps.stamp(request)
        item.outcome = refusal(error, Stage.DECODE, item.version)
        items.append(item)
    return items
