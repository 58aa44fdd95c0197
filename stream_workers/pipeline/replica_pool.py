"""The member's model processes as one pool: where each batch goes, what came back, and who makes no progress."""

import selectors
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from schemas.settings import Settings, urgent_slots
from stream_workers.batching.batcher import most_passed_over
from stream_workers.batching.work import Batch, ServedVersion
from stream_workers.links.input_ring import InputRing
from stream_workers.links.messages import Attach, Detach, Residents
from stream_workers.pipeline.contract import BatchLost, BatchOutcome, Residency
from stream_workers.pipeline.replica import Replica, Urgency
from stream_workers.pipeline.replica_groups import ReplicaGroups

CHECK_SECONDS = 0.1
REASON_WAIT_SECONDS = 1.0
"""How long a lost batch waits to hear from the supervisor why its process ended; usually it takes milliseconds."""
TIMEOUT_CODE = "model_timeout"

PoolMessage = Attach | Detach | Residents

_log = structlog.get_logger("models")


class PoolLink(Protocol):
    """The pool's view of the supervisor; see :class:`stream_workers.supervision.member_link.MemberLink`."""

    def fileno(self) -> int:
        """For selectors."""

    @property
    def has_unsent(self) -> bool:
        """True while messages wait: call `flush` when it is writable."""

    def flush(self) -> None:
        """Send what is queued."""

    def receive(self) -> Sequence[tuple[PoolMessage, list[int]]]:
        """Return what has arrived, each message with its descriptors."""

    def release(self, instance: int) -> None:
        """Let an instance go that has nothing in hand."""

    def kill_instance(self, instance: int, code: str) -> None:
        """Have an instance killed that makes no progress."""


class ReplicaPool:
    """A :class:`stream_workers.pipeline.contract.ModelPool` over the processes that the supervisor attaches."""

    def __init__(self, link: PoolLink, settings: Settings, clock: Callable[[], float]) -> None:
        self._link = link
        self._batch_timeout_seconds = settings.model.batch_timeout_seconds
        self._urgency = Urgency(urgent_slots(settings), most_passed_over(settings.batching.lowest_share))
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._link_mask = 0
        # What came together with the link's first message waits inside it, where no selector sees it.
        self._link_unread = True
        self._masks: dict[int, int] = {}
        self._replicas: dict[int, Replica] = {}
        self._groups = ReplicaGroups()
        self._logged: ServedVersion | None = None
        self._identities: dict[str, bytes] = {}
        self._precisions: dict[str, str] = {}
        self._checked_at = float("-inf")
        self._copies_out = 0
        self._copies_back: list[BatchOutcome] = []

    # -- the contract --------------------------------------------------------------------------------------------------

    def count_free_slots(self, priority: int = 0, version: ServedVersion | None = None) -> int:
        """Batches of this priority that may be submitted now."""
        return sum(replica.count_free_slots(priority) for replica in self._groups.find(version))

    def has_idle_instance(self, version: ServedVersion | None = None) -> bool:
        """True when a loaded model process has nothing to do."""
        return any(one.count_free_slots() and not one.batches_in_hand for one in self._groups.find(version))

    def has_instances(self, version: ServedVersion | None = None) -> bool:
        """True when at least one model process is attached and loaded."""
        return any(replica.is_ready and not replica.is_gone for replica in self._groups.find(version))

    def active_version(self) -> ServedVersion | None:
        """The main version that was asked for, once it is loaded; before that the one before it."""
        return self._groups.active

    def resident(self) -> frozenset[str]:
        """Names of the versions of which a process is attached and loaded."""
        return self._groups.resident

    def residency(self) -> Residency:
        """Return what is loaded, and what is not, for others to know."""
        return self._groups.residency

    def answer_identity(self, version: ServedVersion | None = None) -> bytes:
        """What would make the answers of a version; empty when its class does not declare `cacheable`."""
        asked = version or self._groups.active
        return self._identities.get(asked.version, b"") if asked is not None else b""

    def precision_of(self, version: str) -> str:
        """What a version computes in, once a process of it was ready; empty before."""
        return self._precisions.get(version, "")

    def submit(self, batch: Batch, now: float) -> None:
        """Give the batch to the replica of its version that can begin it soonest. Raises ValueError when none can."""
        free = [one for one in self._groups.find(batch.version) if one.count_free_slots(batch.priority)]
        if not free:
            raise ValueError(f"no slot of version {batch.version.version} is free: count_free_slots() says when one is")
        replica = min(free, key=lambda one: (one.count_ahead(batch.priority), one.busy_since))
        self._hand_over(replica, batch, now)

    def _hand_over(self, replica: Replica, batch: Batch, now: float) -> None:
        replica.submit(batch, now)
        if replica.has_unsent:
            self._watch(replica)

    def collect(self, timeout_seconds: float, now: float) -> list[BatchOutcome]:
        """Wait for anything from the model processes or the supervisor, and return every batch that ended."""
        self._watch_link()
        events = self._selector.select(timeout_seconds)
        if timeout_seconds > 0:
            now = self._clock()
        outcomes: list[BatchOutcome] = []
        link_ready, self._link_unread = self._link_unread, False
        for key, mask in events:
            if key.data is None:
                link_ready = True
            else:
                outcomes += self._serve_socket(key.data, mask, now)
        if link_ready:
            # After the sockets: what a process answered before it died counts as answered.
            outcomes += self._take_orders(now)
        if now - self._checked_at >= CHECK_SECONDS:
            self._checked_at = now
            outcomes += self._check(now)
        self._release_idle()
        return self._put_copies_aside(outcomes) if self._copies_out else outcomes

    def close(self) -> None:
        """Drop every replica; their processes go on, for the next member."""
        for replica in self._replicas.values():
            replica.close()
        self._replicas.clear()
        self._regroup()
        self._selector.close()

    # -- shadows -------------------------------------------------------------------------------------------------------

    def holds_shadow(self, version: str) -> bool:
        """True while processes of the version run for nobody, or are about to."""
        return self._groups.find_shadow(version) is not None

    def is_shadow_ready(self, version: str) -> bool:
        """True while one of them is loaded."""
        return any(one.is_ready and not one.is_gone for one in self._groups.find_shadow(version) or ())

    def count_shadow_slots(self, version: str) -> int:
        """Copies, by the batch, that may be submitted now."""
        return sum(one.count_free_slots() for one in self._groups.find_shadow(version) or ())

    def submit_copy(self, batch: Batch, now: float) -> None:
        """Give the batch to the shadow that has least to do. Raises ValueError when there is none that can take it."""
        free = [one for one in self._groups.find_shadow(batch.version.version) or () if one.count_free_slots()]
        self._copies_out += 1
        self._hand_over(min(free, key=lambda one: one.batches_in_hand), batch, now)

    def take_copies(self) -> list[BatchOutcome]:
        """Return the batches of shadows that ended since the last call."""
        copies, self._copies_back = self._copies_back, []
        return copies

    def _put_copies_aside(self, outcomes: list[BatchOutcome]) -> list[BatchOutcome]:
        copies = [outcome for outcome in outcomes if outcome.batch.is_copy]
        self._copies_out -= len(copies)
        self._copies_back += copies
        return [outcome for outcome in outcomes if not outcome.batch.is_copy]

    # -- sockets -------------------------------------------------------------------------------------------------------

    def _serve_socket(self, replica: Replica, mask: int, now: float) -> list[BatchOutcome]:
        if mask & selectors.EVENT_WRITE:
            replica.flush()
            self._watch(replica)
        if not mask & selectors.EVENT_READ:
            return []
        was_ready = replica.is_ready
        outcomes = replica.receive(now)
        if replica.is_ready and not was_ready:
            self._note_identity(replica)
            self._regroup()
        if replica.is_gone:
            self._unwatch(replica)
            self._regroup()
            if replica.kill_code is not None:
                outcomes += self._drop(replica, replica.kill_code, "made no progress and was killed")
        return outcomes

    def _note_identity(self, replica: Replica) -> None:
        """Two processes of one version that differ, as when code has changed between their starts, end all caching."""
        self._precisions[replica.version] = replica.precision
        known = self._identities.setdefault(replica.version, replica.answer_identity)
        if known != replica.answer_identity:
            self._identities[replica.version] = b""

    def _watch(self, replica: Replica) -> None:
        mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if replica.has_unsent else 0)
        if self._masks.get(replica.instance) == mask or replica.is_gone:
            return
        if replica.instance in self._masks:
            self._selector.modify(replica, mask, replica)
        else:
            self._selector.register(replica, mask, replica)
        self._masks[replica.instance] = mask

    def _unwatch(self, replica: Replica) -> None:
        if self._masks.pop(replica.instance, None) is not None:
            self._selector.unregister(replica)

    def _watch_link(self) -> None:
        mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._link.has_unsent else 0)
        if mask != self._link_mask:
            change = self._selector.modify if self._link_mask else self._selector.register
            change(self._link, mask, None)
            self._link_mask = mask

    # -- orders of the supervisor --------------------------------------------------------------------------------------

    def _take_orders(self, now: float) -> list[BatchOutcome]:
        self._link.flush()
        outcomes: list[BatchOutcome] = []
        for message, descriptors in self._link.receive():
            if isinstance(message, Attach):
                self._attach(message, descriptors, now)
            elif isinstance(message, Residents):
                self._announce(message)
            elif (replica := self._replicas.get(message.instance)) is not None:
                if not replica.is_gone:
                    outcomes += replica.receive(now)
                outcomes += self._drop(replica, replica.kill_code or message.code, message.detail)
        return outcomes

    def _attach(self, message: Attach, descriptors: list[int], now: float) -> None:
        ring = InputRing(descriptors[1], message.slots, message.slot_bytes)
        replica = Replica(message, descriptors[0], ring, now, self._urgency)
        self._replicas[message.instance] = replica
        self._watch(replica)
        self._regroup()

    def _announce(self, residents: Residents) -> None:
        self._groups.announce(residents, self._replicas)
        self._log_active()

    def _regroup(self) -> None:
        self._groups.regroup(self._replicas)
        self._log_active()

    def _log_active(self) -> None:
        active = self._groups.active
        if active is not None and active != self._logged:
            _log.info("version active", version=active.version, epoch=active.epoch)
        self._logged = active

    def _drop(self, replica: Replica, code: str, detail: str) -> list[BatchLost]:
        self._unwatch(replica)
        del self._replicas[replica.instance]
        lost = replica.lose(code, detail)
        replica.close()
        self._regroup()
        return lost

    # -- watching ------------------------------------------------------------------------------------------------------

    def _check(self, now: float) -> list[BatchOutcome]:
        outcomes: list[BatchOutcome] = []
        for replica in list(self._replicas.values()):
            if replica.is_gone:
                if now - replica.gone_at > REASON_WAIT_SECONDS:
                    # It lives, then, and will be of no use without its socket.
                    self._link.kill_instance(replica.instance, "model_crashed")
                    outcomes += self._drop(replica, "model_crashed", "its socket closed")
            elif replica.kill_code is None and replica.is_stuck(self._batch_timeout_seconds, now):
                _log.error("model process stuck", instance=replica.instance, batches=replica.batches_in_hand)
                replica.kill_code = TIMEOUT_CODE
                self._link.kill_instance(replica.instance, TIMEOUT_CODE)
        return outcomes

    def _release_idle(self) -> None:
        """Let go of replicas that no new batch will meet, each as soon as it has nothing in hand."""
        idle = [replica for replica in self._groups.leaving if not replica.batches_in_hand]
        for replica in idle:
            self._link.release(replica.instance)
            self._unwatch(replica)
            del self._replicas[replica.instance]
            replica.close()
        if idle:
            self._regroup()
