"""The member's side of one model process: its slots, the batches it has in hand, and what it says of them."""

import itertools
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from schemas.records import Stage
from stream_workers.batching.batcher import MOST_URGENT
from stream_workers.batching.work import Batch, RunMode
from stream_workers.links.framing import MAX_DATA_BYTES, READ_BYTES, FrameError, FrameReader, frame
from stream_workers.links.input_ring import IDLE, InputRing
from stream_workers.links.messages import (
    EXPIRED_CODE,
    Attach,
    Done,
    Fault,
    Outcome,
    Raised,
    Ready,
    RecordDone,
    Run,
    decode,
    encode,
    outcome_decoder,
)
from stream_workers.pipeline.contract import (
    BatchAnswered,
    BatchLost,
    BatchOutcome,
    BatchRaised,
    RecordExpired,
    RecordOutcome,
    RecordRefused,
)

_EXPIRED = RecordExpired()


@dataclass(frozen=True, slots=True)
class Urgency:
    """How urgent batches go before others: slots that only they may take, and how many may pass one that waits."""

    reserved_slots: int
    most_passed_over: int


NO_LANES = Urgency(0, 0)


@dataclass(slots=True)
class _InHand:
    """A batch that the model process has."""

    batch: Batch
    slot: int
    answered: list[RecordOutcome] = field(default_factory=list)


class Replica:
    """One attached model process. Never blocks: what does not fit the socket waits here."""

    def __init__(
        self, attach: Attach, data_descriptor: int, ring: InputRing, now: float, urgency: Urgency = NO_LANES
    ) -> None:
        self.instance = attach.instance
        self.version = attach.version.version
        """By name: epochs come and go while it is loaded."""
        self.answer_identity = b""
        """Known once it is ready, as is what follows."""
        self.precision = ""
        self.is_ready = False
        self.is_gone = False
        """The data socket has ended; its batches wait for the reason why."""
        self.gone_at = 0.0
        self.kill_code: str | None = None
        """Set once this member has asked for its end."""
        self._socket = socket.socket(fileno=data_descriptor)
        self._socket.setblocking(False)
        self._reader = FrameReader(MAX_DATA_BYTES)
        self._ring = ring
        self._free = list(range(attach.slots))
        self._for_others = attach.slots - urgency.reserved_slots
        self._most_passed_over = urgency.most_passed_over
        self._in_hand: dict[int, _InHand] = {}
        self._unsent: deque[memoryview] = deque()
        self._seen_counter = -1
        self._moved_at = now
        self._running_since = now

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """True while orders wait for the socket: call `flush` when it is writable."""
        return bool(self._unsent)

    def count_free_slots(self, priority: int = MOST_URGENT) -> int:
        """Batches of this priority that may be submitted now."""
        if not self.is_ready or self.is_gone or self.kill_code is not None:
            return 0
        free = len(self._free)
        if priority == MOST_URGENT:
            return free
        others = sum(held.batch.priority != MOST_URGENT for held in self._in_hand.values())
        return max(0, min(free, self._for_others - others))

    @property
    def batches_in_hand(self) -> int:
        """Batches submitted and not answered."""
        return len(self._in_hand)

    def count_ahead(self, priority: int) -> int:
        """Batches in hand that one of this priority would wait for, but for one of a lower priority that runs."""
        return sum(held.batch.priority <= priority for held in self._in_hand.values())

    @property
    def busy_since(self) -> float:
        """When the batch that runs was begun, monotonic seconds, -inf while idle: the older, the sooner it is free."""
        return self._running_since if self._in_hand else float("-inf")

    def submit(self, batch: Batch, now: float) -> None:
        """Write the payloads into a free slot and send the order. Raises ValueError when the batch is too large."""
        payloads = [item.request.payload or b"" for item in batch.items]
        slot = self._free[-1]
        self._ring.write(slot, payloads[0] if len(payloads) == 1 else b"".join(payloads))
        self._free.pop()
        if not self._in_hand:
            self._moved_at = self._running_since = now
        self._in_hand[batch.id] = _InHand(batch, slot)
        order = _describe(batch, slot, payloads, self._most_passed_over)
        self._unsent.append(memoryview(frame(encode(order), MAX_DATA_BYTES)))
        self.flush()

    def flush(self) -> None:
        """Send what is queued, as far as the socket takes it. A socket that is gone shows when it is read."""
        while self._unsent:
            data = self._unsent[0]
            try:
                sent = self._socket.send(data)
            except BlockingIOError:
                return
            except OSError:
                self._unsent.clear()
                return
            if sent < len(data):
                self._unsent[0] = data[sent:]
                return
            self._unsent.popleft()

    def receive(self, now: float) -> list[BatchOutcome]:
        """Read what is there and return the batches that ended. Sets `is_gone` at the socket's end."""
        outcomes: list[BatchOutcome] = []
        try:
            while data := self._socket.recv(READ_BYTES):
                for body in self._reader.feed(data):
                    ended = self._take(decode(outcome_decoder, body), now)
                    if ended is not None:
                        outcomes.append(ended)
                if len(data) < READ_BYTES:
                    return outcomes
        except BlockingIOError:
            return outcomes
        except (OSError, FrameError):
            pass
        self.is_gone, self.gone_at = True, now
        return outcomes

    def is_stuck(self, timeout_seconds: float, now: float) -> bool:
        """True when there is something to do and no step was made for so long, getting ready included."""
        counter = self._ring.progress().counter
        if counter != self._seen_counter:
            self._seen_counter, self._moved_at = counter, now
        return (bool(self._in_hand) or not self.is_ready) and now - self._moved_at > timeout_seconds

    def lose(self, code: str, detail: str) -> list[BatchLost]:
        """Give up all batches in hand. Only what had begun is suspect: what ran, and what was prepared beside it.

        The record that was worked on is the culprit, unless two batches were in work.
        """
        progress = self._ring.progress()
        at_record = progress.record if progress.preparing == IDLE else IDLE
        lost = []
        for batch_id, held in self._in_hand.items():
            suspect = batch_id in (progress.batch_id, progress.preparing) or bool(held.answered)
            record = at_record if batch_id == progress.batch_id and at_record != IDLE else None
            culprit = record if record is not None and len(held.answered) <= record < len(held.batch.items) else None
            lost.append(BatchLost(held.batch, held.answered, suspect, culprit, code, detail, held.batch.version))
        self._in_hand.clear()
        return lost

    def close(self) -> None:
        """Close the socket and the mapping."""
        self._socket.close()
        self._ring.close()

    def _take(self, message: Outcome, now: float) -> BatchOutcome | None:
        if isinstance(message, Ready):
            self.is_ready, self._moved_at = True, now
            self.answer_identity, self.precision = message.answer_identity, message.precision
            return None
        held = self._in_hand.get(message.batch_id)
        if held is None or not self.is_ready:
            raise FrameError(f"an answer to batch {message.batch_id}, which is not in hand")
        if isinstance(message, RecordDone):
            if message.index != len(held.answered) or message.index >= len(held.batch.items):
                raise FrameError(f"record {message.index} answered out of order")
            held.answered.append(message.output if message.fault is None else _refused(message.fault))
            return None
        outcome = _finish(held, message)
        del self._in_hand[message.batch_id]
        self._free.append(held.slot)
        self._moved_at = self._running_since = now
        return outcome


def _describe(batch: Batch, slot: int, payloads: Sequence[bytes], most_passed_over: int) -> Run:
    requests = [item.request for item in batch.items]
    types = [request.content_type for request in requests]
    keys = [request.key for request in requests]
    # A copy may come as late as it likes.
    deadlines = [request.deadline_ms for request in requests if not batch.is_copy]
    return Run(
        batch_id=batch.id,
        slot=slot,
        isolated=batch.mode is RunMode.ISOLATED,
        lengths=[len(payload) for payload in payloads],
        # One value stands for all of them: most batches are of one type, and of one stream.
        content_types=types[:1] if types.count(types[0]) == len(types) else types,
        keys=keys[:1] if keys.count(keys[0]) == len(keys) else keys,
        request_ids=[request.id for request in requests],
        priority=batch.priority,
        most_passed_over=most_passed_over,
        deadlines_ms=deadlines if any(deadlines) else [],
    )


def _finish(held: _InHand, message: Done | Raised) -> BatchOutcome:
    batch = held.batch
    if isinstance(message, Raised):
        stage = Stage(message.stage)
        return BatchRaised(batch, stage, message.error_class, message.message, batch.version)
    outcomes = held.answered if batch.mode is RunMode.ISOLATED else _unpack(message)
    if len(outcomes) != len(batch.items):
        raise FrameError(f"{len(outcomes)} answers to {len(batch.items)} records")
    return BatchAnswered(batch, outcomes, batch.version, message.model_ms, tuple(message.stages_ms), message.padded)


def _unpack(message: Done) -> list[RecordOutcome]:
    outputs = message.outputs
    ends = list(itertools.accumulate(message.lengths))
    if (ends[-1] if ends else 0) != len(outputs):
        raise FrameError(f"lengths do not add up to the {len(outputs)} bytes of outputs")
    outcomes: list[RecordOutcome] = [
        outputs[end - length : end] for length, end in zip(message.lengths, ends, strict=True)
    ]
    for fault in message.faults:
        if not 0 <= fault.index < len(outcomes):
            raise FrameError(f"a fault of record {fault.index} of {len(outcomes)}")
        outcomes[fault.index] = _refused(fault)
    return outcomes


def _refused(fault: Fault) -> RecordRefused | RecordExpired:
    if fault.code == EXPIRED_CODE:
        return _EXPIRED
    return RecordRefused(Stage(fault.stage), fault.code, fault.error_class, fault.message)
