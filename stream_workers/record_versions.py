"""Which version each record meets, in the worker: follow the timeline, cut partitions, let records in. A thin driver.

All calls come from the worker's main thread. What it decides with is in :mod:`stream_workers.batching.version_stamps`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from model_store.timeline import CALL_OFF_MARGIN_MS, SwitchMode, Timeline
from schemas.version_cuts import VersionCut
from stream_workers.batching.batcher import Batcher
from stream_workers.batching.epoch_floor import decode_floor
from stream_workers.batching.offset_ledger import OffsetLedger
from stream_workers.batching.switch_stall import SwitchStall
from stream_workers.batching.version_stamps import VersionStamps
from stream_workers.batching.work import PartitionKey, ServedVersion, WorkItem
from stream_workers.intake_gate import IntakeGate
from stream_workers.kafka.committed_offsets import CommittedOffset
from stream_workers.kafka.group_member import Polled
from stream_workers.metrics import VersionMetrics

FRESH_SECONDS = 1.5
"""A member whose last look at the pointer is older takes nothing in: a switch is made known two seconds ahead."""

_log = structlog.get_logger("versions")


@dataclass(frozen=True, slots=True)
class Attempt:
    """The last look at the pointer that came to an end, be it with an answer or without."""

    began_ms: int
    """Epoch milliseconds of this host's clock."""
    as_of: float
    """Monotonic seconds: how new the decisions are that are known since. An answer is as old as the question, however
    late it was taken note of; where there was none, nothing newer can be had than at the end of the attempt."""


class TimelineSource(Protocol):
    """Where decisions come from; see :class:`stream_workers.version_following.VersionFollower`."""

    @property
    def attempt(self) -> Attempt | None:
        """The last look; None while the version is fixed. What it found is there to be taken."""

    def take_timeline(self) -> Timeline | None:
        """Return the newest timeline if it was not taken before."""


class CutSource(Protocol):
    """Where recorded cuts come from; see :class:`stream_workers.kafka.cut_reader.CutReader`."""

    def start(self) -> None:
        """Begin to read."""

    def catch_up(self) -> None:
        """Wait until everything is read that was recorded up to now. Raises UnavailableError."""

    def cuts_of(self, partition: PartitionKey) -> Mapping[int, int]:
        """Return the recorded cuts of a partition, first offset by epoch."""


class RecordVersions:
    """Keeps stamps, ledger and queues of one worker in step with the timeline."""

    def __init__(  # noqa: PLR0913 - the parts it keeps in step, all keyword-only
        self,
        *,
        stamps: VersionStamps,
        source: TimelineSource,
        cuts: CutSource,
        ledger: OffsetLedger,
        batcher: Batcher,
        metrics: VersionMetrics,
        model: str,
        can_start: Callable[[ServedVersion], bool],
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
    ) -> None:
        """`can_start` says whether a version is loaded."""
        self.stamps = stamps
        self._source = source
        self._cuts = cuts
        self._ledger = ledger
        self._batcher = batcher
        self._metrics = metrics
        self._model = model
        self._can_start = can_start
        self._clock = clock
        self._wall_clock = wall_clock
        self._stall = SwitchStall()
        self._gate = IntakeGate()
        self._attempt: Attempt | None = None

    def start(self) -> None:
        """Begin to read recorded cuts, in good time before partitions are taken."""
        self._cuts.start()

    # -- the worker's verbs --------------------------------------------------------------------------------------------

    def follow(self, find_ends: Callable[[], Mapping[PartitionKey, int]]) -> bool:
        """Adopt a newer timeline: cut each partition where it stands and decide again for what no model has met.

        `find_ends` says, by partition, the offset after the last record in a batch. True when there was one.
        """
        # Before the timeline: what this attempt found is taken below.
        self._attempt = self._source.attempt
        timeline = self._source.take_timeline()
        if timeline is None:
            if self._stall.is_open:
                self._stall.note_turn(self._clock(), is_blocked=self._is_blocked())
            return False
        began_at = self._clock()
        _log.info("timeline adopted", epoch=timeline.epoch)
        self.stamps.adopt(timeline)
        ends = find_ends()
        for partition in list(self._ledger.partitions()):
            self._turn(partition, ends.get(partition, 0))
        self._stall.open(timeline.epoch, began_at, self._clock())
        return True

    def note_started(self, version: ServedVersion, now: float) -> None:
        """A batch was given to a model process: perhaps the first under a switch."""
        met = self._stall.close(version.epoch, now)
        if met is not None:
            self._metrics.stall.observe(met.stalled_seconds)
            _log.info(
                "switch met",
                epoch=met.epoch,
                version=version.version,
                stalled_ms=round(met.stalled_seconds * 1000, 3),
                after_ms=round(met.after_seconds * 1000, 3),
            )

    def let_in(self, polled: Polled, assignments: Mapping[PartitionKey, int], now: float) -> list[Polled]:
        """Return what may be taken in now, in order; the rest is held until the pointer was looked at."""
        if not self._gate.holds and self._may_enter(polled, now):
            return [polled]
        if not self._gate.holds:
            self._metrics.holds.inc()
        self._gate.hold(polled, assignments)
        return self._gate.release(assignments) if self._may_enter_all(now) else []

    @property
    def holds(self) -> bool:
        """True while records are held that were polled."""
        return self._gate.holds

    # -- partitions that come and go -----------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Before partitions are taken: read every cut that was recorded for them. Raises UnavailableError."""
        self._cuts.catch_up()

    def open(self, partition: PartitionKey, assignment: int, committed: CommittedOffset) -> None:
        """Begin with a partition; its cut, if it has to be made, waits in the ledger."""
        floor_epoch = decode_floor(committed.metadata)
        if floor_epoch is None:
            self._metrics.unknown_floors.inc()
            floor_epoch = 0
        self._ledger.open(partition, assignment, committed.offset, floor_epoch)
        self.stamps.open(partition, self._cuts.cuts_of(partition), floor_epoch)
        self._turn(partition, 0)

    def close(self, partition: PartitionKey) -> None:
        """Forget a partition that was taken away."""
        self.stamps.close(partition)

    # -- small parts ---------------------------------------------------------------------------------------------------

    def _turn(self, partition: PartitionKey, beyond: int) -> None:
        lowest = self._ledger.find_cut(partition, beyond)
        epoch = self.stamps.find_uncut_epoch(partition)
        if epoch is not None:
            self.stamps.cut(partition, epoch, lowest)
            cut = VersionCut(self._model, *partition, epoch, lowest, int(self._wall_clock() * 1000))
            self._ledger.add_cut(partition, cut)
            self._metrics.cuts.inc()
            _log.info("cut", topic=partition[0], partition=partition[1], epoch=epoch, offset=lowest)
        queued = self._batcher.take_from(partition, lowest)
        items = self._ledger.pending_from(partition, lowest)
        changed = self.stamps.restamp(partition, self._ledger.epoch_below(partition, lowest), items)
        self._rename(changed)
        self._batcher.add(queued)
        self._metrics.restamped.inc(len(changed))

    def _is_blocked(self) -> bool:
        """Whether work waits, all of it for a version that is not loaded or for a look at the pointer."""
        queued = len(self._batcher)
        return self._batcher.count_waiting(self._can_start) == queued if queued else self._gate.holds

    @staticmethod
    def _rename(items: Sequence[WorkItem]) -> None:
        """Outcomes behind a cut, which no model made, name the version that their record would have met."""
        for item in items:
            if item.outcome is not None and hasattr(item.outcome, "version"):
                item.outcome = msgspec.structs.replace(item.outcome, version=item.version)

    def _may_enter_all(self, now: float) -> bool:
        return all(self._may_enter(polled, now) for polled in self._gate.held())

    def _may_enter(self, polled: Polled, now: float) -> bool:
        attempt = self._attempt
        if attempt is None or not polled.requests:
            return True
        if now - attempt.as_of > FRESH_SECONDS:
            return False
        newest = self.stamps.timeline.latest
        if newest is None or newest.mode is not SwitchMode.EXACT:
            return True
        # Until then the switch could be called off: nobody meets it before a look that would have shown that.
        if attempt.began_ms >= newest.effective_from_ms - CALL_OFF_MARGIN_MS:
            return True
        return all(request.timestamp_ms < newest.effective_from_ms for request in polled.requests)


class NoTimeline:
    """The source while the version is fixed by the settings."""

    attempt: Attempt | None = None

    def take_timeline(self) -> Timeline | None:
        """Return None: nothing ever changes."""
        return None


class NoCuts:
    """The recorded cuts while the version is fixed by the settings."""

    def start(self) -> None:
        """There is nothing to read."""

    def catch_up(self) -> None:
        """There is nothing to read."""

    def cuts_of(self, partition: PartitionKey) -> Mapping[int, int]:
        """Return nothing."""
        del partition
        return {}
