"""Which version each record of this member meets, partition by partition. Pure.

What decides is :mod:`model_store.record_versions`; here it is kept cheap. Once a partition has met the newest decision,
and that names one version, nothing is left to decide for its later records: while that holds for every partition,
`constant` is all that the path of a record needs.
"""

from collections.abc import Mapping, Sequence

from model_store.record_versions import PartitionVersions
from model_store.timeline import Timeline, TimelineEntry
from schemas.records import Request, sticky_key
from stream_workers.batching.work import PartitionKey, ServedVersion, WorkItem


class VersionStamps:
    """The timeline and the open partitions of one member. Not thread-safe: one thread owns it."""

    def __init__(self, model: str, fixed: ServedVersion | None = None) -> None:
        """With `fixed`, every record meets that version and there is no timeline."""
        self._model = model
        self._fixed = fixed
        self._open: dict[PartitionKey, PartitionVersions] = {}
        self._undecided: set[PartitionKey] = set()
        """Open partitions that have not met the newest decision."""
        self._served: dict[tuple[int, str], ServedVersion] = {}
        self.timeline = Timeline()
        self.constant = fixed
        """The version of every record that comes now; None while that differs between them."""

    def adopt(self, timeline: Timeline) -> None:
        """Follow a newer timeline; records that are queued are for :meth:`restamp`."""
        self.timeline = timeline
        self._served = {key: served for key, served in self._served.items() if key[0] >= timeline.entries[0].epoch}
        self._undecided = set(self._open)
        for partition in self._open:
            self._decide(partition)
        self._find_constant()

    def open(self, partition: PartitionKey, cuts: Mapping[int, int], floor_epoch: int) -> None:
        """Begin with a partition: its recorded cuts, and the epoch that is committed with its offset."""
        if self._fixed is None:
            self._open[partition] = PartitionVersions(dict(cuts), floor_epoch)
            self._undecided.add(partition)
            self._decide(partition)
            self._find_constant()

    def close(self, partition: PartitionKey) -> None:
        """Forget a partition that was taken away."""
        self._open.pop(partition, None)
        self._undecided.discard(partition)
        self._find_constant()

    def stamp(self, request: Request) -> ServedVersion:
        """Return the version of the next record of its partition; those of one partition come in offset order.

        One with an empty name: the partition is further than the timeline that is known here, so the record must wait.
        """
        if self._fixed is not None:
            return self._fixed
        key = (request.topic, request.partition)
        if key not in self._undecided:
            return self._pick(self.timeline.entries[-1], request)
        place = self._open.get(key)
        entry = place.meet(self.timeline, request.offset, request.timestamp_ms) if place is not None else None
        if entry is None:
            return ServedVersion(self._model, "", place.floor_epoch if place is not None else 0)
        if entry is self.timeline.entries[-1]:
            self._decide(key)
            self._find_constant()
        return self._pick(entry, request)

    def find_uncut_epoch(self, partition: PartitionKey) -> int | None:
        """Return the epoch whose cut this member has to make for an open partition, if there is one."""
        place = self._open.get(partition)
        return None if place is None else place.find_uncut_epoch(self.timeline)

    def cut(self, partition: PartitionKey, epoch: int, offset: int) -> None:
        """From `offset` on, the records of an open partition meet `epoch`."""
        self._open[partition].cuts[epoch] = offset

    def restamp(self, partition: PartitionKey, floor_epoch: int, items: Sequence[WorkItem]) -> list[WorkItem]:
        """Decide again for the last records of a partition, in offset order; returns those that changed.

        `floor_epoch` is the highest epoch of the records before them.
        """
        place = self._open.get(partition)
        if place is None:
            return []
        place.floor_epoch = floor_epoch
        self._undecided.add(partition)
        self._decide(partition)
        changed = []
        for item in items:
            version = self.stamp(item.request)
            if version != item.version:
                item.version = version
                changed.append(item)
        self._decide(partition)
        self._find_constant()
        return changed

    def _decide(self, partition: PartitionKey) -> None:
        """Take a partition off the undecided ones when all its records from here on meet the newest decision."""
        place = self._open[partition]
        newest = self.timeline.latest
        if newest is not None and place.floor_epoch == newest.epoch:
            self._undecided.discard(partition)

    def _find_constant(self) -> None:
        if self._fixed is not None:
            return
        newest = self.timeline.latest
        decided = newest is not None and len(newest.split) == 1 and not self._undecided
        self.constant = self._version(newest.epoch, newest.heaviest) if decided and newest is not None else None

    def _pick(self, entry: TimelineEntry, request: Request) -> ServedVersion:
        if len(entry.split) == 1:
            return self._version(entry.epoch, entry.heaviest)
        key = sticky_key(request.key, request.topic, request.partition, request.offset)
        return self._version(entry.epoch, entry.pick(key))

    def _version(self, epoch: int, name: str) -> ServedVersion:
        served = self._served.get((epoch, name))
        if served is None:
            served = self._served[epoch, name] = ServedVersion(self._model, name, epoch)
        return served
