"""What happens when partitions come and go. Runs inside a poll, in the worker's thread."""

from collections.abc import Mapping, Sequence

import structlog

from stream_workers.batching.work import PartitionKey
from stream_workers.kafka.committed_offsets import CommittedOffset
from stream_workers.parts import LetsGo, WorkerParts

_log = structlog.get_logger("worker")


class PartitionLifecycle:
    """Numbers every assignment, so that what belongs to an earlier one can be told apart and fenced."""

    def __init__(self, parts: WorkerParts, worker: LetsGo) -> None:
        self._p = parts
        self._worker = worker
        self._serial = 0

    def on_assigned(self, partitions: Mapping[PartitionKey, CommittedOffset]) -> None:
        """Open a fresh book for each partition; it starts at its committed offset and unpaused.

        What was recorded of its versions is read first: committed offsets were, so nothing of a former owner comes
        after that.
        """
        if partitions:
            self._p.versions.catch_up()
        for partition, committed in partitions.items():
            self._serial += 1
            self._p.assignments[partition] = self._serial
            self._p.versions.open(partition, self._serial, committed)
            self._p.budget.forget(partition)
        self._changed("assigned", list(partitions))
        self._worker.offer(self._p.ledger.settle_cuts())

    def on_revoked(self, partitions: Sequence[PartitionKey]) -> None:
        """Finish and commit what is in flight, within the drain limit, then let go of the rest."""
        give_up_at = self._p.clock() + self._p.settings.worker.drain_seconds
        self._worker.let_go(partitions, give_up_at)
        self._close(partitions)
        self._changed("revoked", partitions)

    def on_lost(self, partitions: Sequence[PartitionKey]) -> None:
        """Another member owns them already: write nothing of theirs any more."""
        for partition in partitions:
            self._p.batcher.drop(partition)
        self._close(partitions)
        self._changed("lost", partitions)

    def _close(self, partitions: Sequence[PartitionKey]) -> None:
        for partition in partitions:
            self._p.assignments.pop(partition, None)
            self._p.ledger.close(partition)
            self._p.versions.close(partition)
            self._p.budget.forget(partition)
            self._p.deadlines.forget(partition)
            self._p.cache.drop(partition)

    def _changed(self, event: str, partitions: Sequence[PartitionKey]) -> None:
        self._p.settlement.own(self._p.assignments)
        self._p.metrics.member.note_rebalance(event, len(self._p.assignments))
        _log.info(f"partitions {event}", partitions=[f"{topic}-{number}" for topic, number in partitions])
