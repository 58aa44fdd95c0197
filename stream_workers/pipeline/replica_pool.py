"""The member's model processes as one pool: where each batch goes, what came back, and who makes no progress."""

import selectors
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from schemas.settings import Settings, urgent_slots
from stream_workers.batching.batcher import most_passed_over
from stream_workers.batching.work import Batch, ServedVersion
from stream_workers.links.input_ring import InputRing
from stream_workers.links.messages import Attach, Detach, Serving
from stream_workers.pipeline.contract import BatchLost, BatchOutcome
from stream_workers.pipeline.replica import Replica, Urgency

CHECK_SECONDS = 0.1
REASON_WAIT_SECONDS = 1.0
"""How long a lost batch waits to hear from the supervisor why its process ended; usually it takes milliseconds."""
TIMEOUT_CODE = "model_timeout"

PoolMessage = Attach | Detach | Serving

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
        self._serving: list[Replica] = []
        self._announced: Serving | None = None
        self._active: ServedVersion | None = None
        self._identities: dict[tuple[str, str], bytes] = {}
        self._checked_at = float("-inf")

    # -- the contract --------------------------------------------------------------------------------------------------

    def count_free_slots(self, priority: int = 0) -> int:
        """Batches of this priority that may be submitted now."""
        return sum(replica.count_free_slots(priority) for replica in self._serving)

    def has_idle_instance(self) -> bool:
        """True when a loaded model process has nothing to do."""
        return any(replica.count_free_slots() and not replica.batches_in_hand for replica in self._serving)

    def has_instances(self) -> bool:
        """True when at least one model process is attached and loaded."""
        return any(replica.is_ready and not replica.is_gone for replica in self._serving)

    def active_version(self) -> ServedVersion | None:
        """The version that the next submitted batch will meet."""
        return self._active

    def answer_identity(self) -> bytes:
        """What would make the answers of the active version; empty when its class does not declare `cacheable`."""
        active = self._active
        return self._identities.get((active.model, active.version), b"") if active is not None else b""

    def submit(self, batch: Batch, now: float) -> None:
        """Give the batch to the replica that can begin it soonest. Raises ValueError when no slot is free."""
        free = [replica for replica in self._serving if replica.count_free_slots(batch.priority)]
        if not free:
            raise ValueError("no slot is free: count_free_slots() says when one is")
        replica = min(free, key=lambda one: (one.count_ahead(batch.priority), one.running_since))
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
        return outcomes

    def close(self) -> None:
        """Drop every replica; their processes go on, for the next member."""
        for replica in self._replicas.values():
            replica.close()
        self._replicas.clear()
        self._serving.clear()
        self._selector.close()

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
            self._switch()
        if replica.is_gone:
            self._unwatch(replica)
            if replica.kill_code is not None:
                outcomes += self._drop(replica, replica.kill_code, "made no progress and was killed")
        return outcomes

    def _note_identity(self, replica: Replica) -> None:
        """Two processes of one version that differ, as when code has changed between their starts, end all caching."""
        version = (replica.version.model, replica.version.version)
        known = self._identities.setdefault(version, replica.answer_identity)
        if known != replica.answer_identity:
            self._identities[version] = b""

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
            elif isinstance(message, Serving):
                self._announced = message
                self._switch()
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

    def _switch(self) -> None:
        """Turn to what was announced, once one of its replicas is ready; until then the old ones go on."""
        announced = self._announced
        if announced is None:
            return
        named = [self._replicas[instance] for instance in announced.instances if instance in self._replicas]
        if not any(replica.is_ready for replica in named):
            return
        if self._active != announced.version:
            _log.info("version active", version=announced.version.version, epoch=announced.version.epoch)
        self._active = announced.version
        self._serving = named
        for replica in named:
            replica.version = announced.version

    def _drop(self, replica: Replica, code: str, detail: str) -> list[BatchLost]:
        self._unwatch(replica)
        del self._replicas[replica.instance]
        self._serving = [other for other in self._serving if other is not replica]
        lost = replica.lose(code, detail)
        replica.close()
        self._switch()
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
        if len(self._replicas) == len(self._serving) or self._announced is None:
            return
        wanted = self._announced.instances
        for replica in list(self._replicas.values()):
            if replica not in self._serving and replica.instance not in wanted and not replica.batches_in_hand:
                self._link.release(replica.instance)
                self._unwatch(replica)
                del self._replicas[replica.instance]
                replica.close()
